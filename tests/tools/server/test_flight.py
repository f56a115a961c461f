"""The bound on what is in flight."""

import anyio
import pytest

from tools.server.flight import Flight


async def entered(flight, *requests):
    """Enter with each (id, size) in turn; return those that found room."""
    done = []

    async def enter_all():
        for request_id, size_bytes in requests:
            await flight.enter(request_id, size_bytes)
            done.append(request_id)

    async with anyio.create_task_group() as group:
        group.start_soon(enter_all)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    return done


def test_no_more_calls_than_fit():
    async def scenario():
        flight = Flight(max_calls=2, max_bytes=100)
        assert await entered(flight, (1, 1), (2, 1), (3, 1)) == [1, 2]
        flight.leave(1)
        assert await entered(flight, (3, 1), (4, 1)) == [3]
        assert flight.calls == 2

    anyio.run(scenario)


def test_no_more_bytes_than_fit_but_always_one_call():
    async def scenario():
        flight = Flight(max_calls=10, max_bytes=100)
        assert await entered(flight, (1, 60), (2, 40), (3, 1)) == [1, 2]
        flight.leave(1)
        assert await entered(flight, (3, 61)) == []
        flight.leave(2)
        assert await entered(flight, (4, 1_000), (5, 0)) == [4]

    anyio.run(scenario)


def test_who_waits_enters_when_another_leaves():
    async def scenario():
        flight = Flight(max_calls=1)
        await flight.enter("a", 1)
        async with anyio.create_task_group() as group:
            group.start_soon(flight.enter, "b", 1)
            await anyio.wait_all_tasks_blocked()
            flight.leave("a")
        assert flight.calls == 1

    anyio.run(scenario)


@pytest.mark.parametrize("stranger", [7, "1"])
def test_one_id_may_enter_twice_and_a_stranger_never_leaves(stranger):
    async def scenario():
        flight = Flight()
        await flight.enter(1, 5)
        await flight.enter(1, 5)
        flight.leave(stranger)
        assert flight.calls == 2
        flight.leave(1)
        flight.leave(1)
        flight.leave(1)
        assert flight.calls == 0

    anyio.run(scenario)
