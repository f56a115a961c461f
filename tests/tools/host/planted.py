"""Secrets made up at run time, by assembly, so that no scanner of a repository finds one here."""

from __future__ import annotations

import base64
import json
import random
import string
from urllib.parse import quote

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
URLSAFE = ALNUM + "-_"


class Maker:
    """Draws secrets from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def draw(self, length: int, alphabet: str = ALNUM) -> str:
        """Return random characters of which some are digits and some are letters."""
        while True:
            text = "".join(self._random.choice(alphabet) for _ in range(length))
            if any(char.isdigit() for char in text) and any(char.isalpha() for char in text):
                return text

    def octets(self, size_bytes: int) -> bytes:
        return self._random.randbytes(size_bytes)

    def word(self) -> str:
        """Return a password such as people choose: a word, a number, perhaps a sign."""
        words = ("hunter", "dragon", "monkey", "swordfish", "banana", "Winter", "Seoul", "kimchi", "Tr0ub", "qwerty")
        return (
            self._random.choice(words) + str(self._random.randrange(2, 9999)) + self._random.choice(["", "!", "@", "#"])
        )

    def base64(self, size_bytes: int) -> str:
        return base64.b64encode(self.octets(size_bytes)).decode()

    def pem(self, kind: str) -> str:
        body = self.base64(300)
        lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
        dashes = "-" * 5
        return f"{dashes}BEGIN {kind}{dashes}\n{lines}\n{dashes}END {kind}{dashes}"

    def jwt(self) -> str:
        def part(value: object) -> str:
            return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

        signature = base64.urlsafe_b64encode(self.octets(32)).decode().rstrip("=")
        return ".".join([part({"alg": "HS256", "typ": "JWT"}), part({"sub": "42", "name": "somebody"}), signature])


def vendor_tokens(make: Maker) -> dict[str, str]:
    """Return tokens whose prefix says whose they are."""
    d = make.draw
    return {
        "github classic": "ghp" + "_" + d(36),
        "github fine-grained": "github" + "_pat_" + d(22) + "_" + d(59),
        "github app": "ghs" + "_" + d(36),
        "gitlab": "glpat" + "-" + d(20, URLSAFE),
        "anthropic": "sk-" + "ant-api03-" + d(93, URLSAFE) + "AA",
        "openai project": "sk-" + "proj-" + d(48, URLSAFE),
        "openai legacy": "sk-" + d(20) + "T3Blbk" + "FJ" + d(20),
        "xai": "xai" + "-" + d(80),
        "groq": "gsk" + "_" + d(52),
        "hugging face": "hf" + "_" + d(34),
        "google api": "AI" + "za" + d(35, URLSAFE),
        "google oauth secret": "GOC" + "SPX-" + d(28, URLSAFE),
        "aws access key": "AK" + "IA" + d(16, string.ascii_uppercase + "234567"),
        "aws example": "AK" + "IAIOSFODNN7" + "EXAMPLE",
        "slack bot": "xo" + "xb-" + d(12, string.digits + "a") + "-" + d(24),
        "slack webhook": "https://hooks.sl" + "ack.com/services/T" + d(8) + "/B" + d(8) + "/" + d(24),
        "stripe": "sk" + "_live_" + d(24),
        "sendgrid": "S" + "G." + d(22, URLSAFE) + "." + d(43, URLSAFE),
        "npm": "np" + "m_" + d(36),
        "pypi": "py" + "pi-AgEIcHlwaS5vcmc" + d(90, URLSAFE),
        "docker hub": "dckr" + "_pat_" + d(27, URLSAFE),
        "digital ocean": "dop" + "_v1_" + d(64, HEX),
        "vault": "hv" + "s." + d(90, URLSAFE),
        "telegram bot": d(9, "123456789a").replace("a", "7") + ":" + "AA" + d(33, URLSAFE),
        "twilio": "S" + "K" + d(32, HEX),
        "shopify": "shp" + "at_" + d(32, HEX),
        "databricks": "da" + "pi" + d(32, HEX),
        "mailgun": "key" + "-" + d(32, HEX),
        "age": "AGE-SECRET" + "-KEY-1" + d(58, string.ascii_uppercase + string.digits),
        "json web token": make.jwt(),
    }


def private_keys(make: Maker) -> dict[str, str]:
    """Return private keys in their wrappings."""
    return {
        "rsa": make.pem("RSA PRIV" + "ATE KEY"),
        "pkcs8": make.pem("PRIV" + "ATE KEY"),
        "encrypted pkcs8": make.pem("ENCRYPTED PRIV" + "ATE KEY"),
        "ec": make.pem("EC PRIV" + "ATE KEY"),
        "openssh": make.pem("OPENSSH PRIV" + "ATE KEY"),
        "pgp": make.pem("PGP PRIV" + "ATE KEY BLOCK"),
        "in json": json.dumps({"private_key": make.pem("PRIV" + "ATE KEY")}),
        "without heading": "MIIEvQ" + "IBADANBgkqhkiG9w0BAQEFAASC" + make.base64(60),
        "openssh without heading": "b3BlbnNzaC1r" + "ZXktdjE" + "AAAAABG5vbmUAAAAEbm9uZQ" + make.base64(30),
        "json web key": json.dumps({"kty": "EC", "crv": "P-256", "d": make.draw(43, URLSAFE)}),
    }


def connection_strings(make: Maker) -> dict[str, str]:
    """Return connection strings and URLs with their passwords."""
    w, d = make.word, make.draw
    return {
        "postgres": f"postgres://app:{w()}@db.internal:5432/app",
        "postgres plain words": "postgresql://postgres:" + "postgres@localhost/dev",
        "mongodb": f"mongodb+srv://admin:{d(16)}@cluster0.ab1cd.mongodb.net/prod?retryWrites=true",
        "redis": f"redis://:{d(24)}@cache:6379/0",
        "amqp": f"amqp://worker:{w()}@mq.example.com//",
        "https": f"https://deploy:{d(20)}@git.example.com/team/app.git",
        "jdbc": f"jdbc:postgresql://db:5432/app?user=app&password={w()}",
        "odbc": f"Driver={{SQL Server}};Server=db01;Database=app;Uid=sa;Pwd={w()};",
        "azure": f"DefaultEndpointsProtocol=https;AccountName=store;Account{'Key'}={make.base64(64)};EndpointSuffix=x",
        "libpq": f"host=db port=5432 dbname=app user=app password={w()}",
        "service bus": f"Endpoint=sb://x.example.net/;SharedAccessKeyName=root;SharedAccess{'Key'}={make.base64(32)}",
        "oracle": f"sqlplus scott/{w()}@//db.example.com:1521/orcl",
        "pgpass": f"db.example.com:5432:app:app:{w()}",
        "signed url": f"https://x.blob.example.net/c/f?sv=2024-01-01&sig={quote(make.base64(32), safe='')}",
        "token in url": f"https://api.example.com/v1/items?access_token={d(40)}",
    }


def transports(make: Maker) -> dict[str, str]:
    """Return headers, cookies and command lines."""
    w, d = make.word, make.draw
    basic = base64.b64encode(f"admin:{w()}".encode()).decode()
    return {
        "bearer": f"Authorization: Bearer {d(40)}",
        "bearer in curl": f"curl -H 'Authorization: Bearer {d(32, HEX)}' https://api.example.com/v1/me",
        "basic": f"Authorization: Basic {basic}",
        "bearer in a sentence": f"send it as Bearer {d(40)} and the gateway lets you through",
        "api key header": f"X-API-Key: {d(32, HEX)}",
        "set-cookie": f"Set-Cookie: session={d(32)}; Path=/; HttpOnly; Secure",
        "cookie": f"Cookie: lang=ko; connect.sid=s%3A{d(32)}.{d(40)}",
        "java session": f"the request carried JSESSIONID={d(32, HEX).upper()}",
        "php session": f"PHPSESSID={d(26, string.ascii_lowercase + string.digits)}",
        "curl user": f"curl -u admin:{w()} https://example.com/private",
        "sshpass": f"sshpass -p '{w()}' ssh root@10.0.0.4",
        "mysql": f"mysql -u root -p{w()} app < dump.sql",
        "redis-cli": f"redis-cli -h cache -a {d(20)} ping",
        "option": f"restic backup --password={w()} /srv",
        "sql user": f"CREATE USER app IDENTIFIED BY '{w()}';",
        "sql role": f"ALTER ROLE app WITH PASSWORD '{w()}';",
        "netrc": f"machine api.example.com login me password {w()}",
        "chpasswd": f"echo 'root:{w()}' | chpasswd",
        "openssl": f"openssl enc -aes-256-cbc -k x -pass pass:{w()}",
        "bcrypt hash": "$2" + "b$12$" + d(53, ALNUM + "./"),
    }


def assignments(make: Maker) -> dict[str, str]:
    """Return names with their secret values."""
    w, d = make.word, make.draw
    return {
        "python": f'DB_PASSWORD = "{w()}"',
        "python call": f'connect(host="db", user="app", password="{w()}")',
        "plain word in quotes": 'password = "sword' + 'fish"',
        "dict": f"{{'user': 'root', 'passwd': '{w()}'}}",
        "json": f'{{"username": "root", "password": "{w()}"}}',
        "yaml": f"database:\n  user: app\n  password: {w()}\n",
        "yaml plain word": "database:\n  user: app\n  password: sword" + "fish\n",
        "ini": f"[client]\nuser=root\npassword={w()}\n",
        "dotenv": f"APP_ENV=production\nSECRET_KEY={d(50)}\nDEBUG=false\n",
        "dotenv password": f"POSTGRES_USER=app\nPOSTGRES_PASSWORD={w()}\n",
        "dotenv export": f"export AWS_SECRET_ACCESS_KEY={make.base64(30)}",
        "dotenv odd name": f"SENDER_CREDS_V2={d(40)}\n",
        "environment": f"PGPASSWORD={w()} psql -h db -U app",
        "api key": f'api_key = "{d(32, HEX)}"',
        "client secret": f'"clientSecret": "{d(32)}"',
        "access token": f"ACCESS_TOKEN={d(40)}",
        "camel case": f'const dbPassword = "{w()}";',
        "java": f'String apiSecret = "{d(24)}";',
        "go": f'password := "{w()}"',
        "ruby": f":password => '{w()}'",
        "compare": f'if password == "{w()}":',
        "signing key": f"signing_key: {d(44)}",
        "rails": f"secret_key_base: {d(128, HEX)}",
        "django": f"SECRET_KEY = 'django-insecure-{d(40)}'",
        "terraform": f'  master_password = "{w()}"',
        "korean key": f"비밀번호={w()}",
        "passphrase": "passphrase: correct horse battery" + " staple",
        "wide characters": f"ｐａｓｓｗｏｒｄ：{w()}",
        "zero width": f"pass\u200bword: {w()}",
    }


def sentences(make: Maker) -> dict[str, str]:
    """Return secrets as people say them."""
    w, d = make.word, make.draw
    return {
        "colon": f"password: {w()}",
        "short form": f"pw: {w()}",
        "is": f"The password is {w()}.",
        "is quoted": f'The admin password is "{w()}", please do not share it.',
        "plain word": "The database password is sword" + "fish.",
        "for something": f"The password for the staging database is {w()}",
        "changed to": f"We changed the root password to {w()} last night.",
        "without verb": f"Log in as deploy with password {w()} and restart it.",
        "as the password": f"Use {w()} as the password when it asks.",
        "pin": f"The PIN is {make.draw(6, string.digits + 'a').replace('a', '3')}.",
        "credentials": f"credentials: admin / {w()}",
        "markdown": f"- user: `root`\n- password: `{w()}`\n",
        "table": f"| user | password |\n| root | password: {w()} |",
        "token is": f"The API token is {d(40)}.",
        "hex token is": f"Our access token is {d(32, HEX)}",
        "token, later": f"The deploy token that CI uses since Monday: {d(36)}",
        "session id": f"the session token was {d(32)}",
        "korean topic": f"비밀번호는 {w()}",
        "korean copula": f"운영 서버 비밀번호는 {w()}입니다.",
        "korean colon": f"관리자 계정 비밀번호: {w()}",
        "korean short": f"와이파이 비번은 {w()}이야",
        "korean instrument": f"비밀번호 {w()}로 접속하면 된다.",
        "korean quoted": f"암호는 '{w()}'로 바꿨다.",
        "korean plain word": "패스워드는 sword" + "fish입니다.",
        "korean pin": "현관 비밀번호는 4821이다.",
        "korean token": f"API 키는 {d(40)} 이다.",
        "korean credentials": f"아이디/비밀번호: admin / {w()}",
        "japanese": f"パスワードは {w()} です。",
        "chinese": f"密码是 {w()}",
        "german": f"Passwort: {w()}",
        "spanish": f"contraseña: {w()}",
    }


def all_planted(seed: int) -> dict[str, str]:
    """Return every planted secret of one seed, by kind."""
    make = Maker(seed)
    groups = (vendor_tokens, private_keys, connection_strings, transports, assignments, sentences)
    return {f"{group.__name__}: {name}": text for group in groups for name, text in group(make).items()}
