"""Runs actors one at a time and switches between them at every request to a store, in an order that a seed decides.

An actor is a greenlet. Before each of its requests it pauses; the scheduler then chooses who goes on. So a seed gives
the same interleaving again, and any actor can be suspended before any request, for any time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import greenlet

MAX_STEPS = 20_000
"""Of one interleaving. One that takes more contains an endless loop."""


CRITICAL = {
    "store": (
        *("create reservation", "list runs", "get reservation"),
        *("create decision", "get decision", "create marker"),
        *("put staged", *["delete staged"] * 3),
    ),
    "disk": ("rename staged", "rename version", "rename version"),
}
"""Requests before which a long suspension is most likely to matter; those that stand twice are chosen more often."""


class Killed(BaseException):
    """Raised in an actor whose process was killed."""


@dataclass(eq=False)
class Process:
    """What is killed as one.

    Attributes:
        name: for the trace.
        pid: its number.
        is_dead: whether it was killed.
    """

    name: str
    pid: int
    is_dead: bool = False


@dataclass(eq=False)
class Actor:
    """One thread of execution.

    Attributes:
        name: for the trace.
        process: the process that it belongs to.
        priority: of a schedule by priorities; the highest goes on.
        run: its greenlet.
        result: what its function returned.
        error: what its function raised; `Killed` if its process was killed.
        has_ended: whether its function has ended.
        waits_for: the actors that it waits for.
        sleeps: whether it is suspended for long.
        request: the request that it is about to send.
    """

    name: str
    process: Process
    priority: float
    run: greenlet.greenlet = field(init=False)
    result: Any = None
    error: BaseException | None = None
    has_ended: bool = False
    waits_for: Sequence[Actor] = ()
    sleeps: bool = False
    request: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether its function returned."""
        return self.has_ended and self.error is None


class Scheduler:
    """Chooses which actor makes the next step.

    Attributes:
        random: decides everything that is left open, from the seed.
        actors: all that were started.
        ready: the actors that can go on.
        waiting: the actors that wait for others.
        current: the actor that runs.
        steps: how many were made.
        when_asleep: called when an actor has fallen asleep before a critical request.
    """

    def __init__(self, seed: int, kind: str) -> None:
        self.random = random.Random(seed)
        self.actors: list[Actor] = []
        self.ready: list[Actor] = []
        self.waiting: list[Actor] = []
        self.current: Actor | None = None
        self.steps = 0
        self.when_asleep: Callable[[], object] = lambda: None
        self._main = greenlet.getcurrent()
        self._killed: list[Process] = []
        self._last: Actor | None = None
        self.choose: Callable[[], Actor] = self.random.choice(
            [
                self._uniformly,
                self._in_bursts,
                *[self._by_priority] * 2,
                self._with_long_sleeps,
                *[self._with_critical_sleeps] * 5,
            ]
        )
        # The order of the priorities changes at a few random steps (PCT: Burckhardt et al., ASPLOS 2010).
        self._changes = {self.random.randrange(self.random.choice([30, 300])) for _ in range(self.random.randrange(8))}

        # Actors sleep, each before a request that decides something.
        self._critical = CRITICAL[kind]
        self._wakes_at = 0
        self._draw_point()

    def start(self, name: str, process: Process, function: Callable[[], Any]) -> Actor:
        """Starts an actor; it runs when it is chosen."""
        actor = Actor(name, process, self.random.random())

        def body() -> None:
            try:
                actor.result = function()
            except AssertionError:
                raise  # in `run`: a promise is broken
            except (Exception, Killed) as error:
                actor.error = error
            finally:
                actor.has_ended = True

        actor.run = greenlet.greenlet(body, self._main)
        self.actors.append(actor)
        self.ready.append(actor)
        return actor

    def pause(self, request: str) -> None:
        """Lets others go on; called by an actor before each request.

        Raises:
            Killed: the actor's process was killed, before or meanwhile.
        """
        actor = self.current
        assert actor is not None
        actor.request = request
        if not actor.process.is_dead:
            self._main.switch()
        if actor.process.is_dead:
            raise Killed

    def wait(self, actors: Sequence[Actor]) -> None:
        """Lets the calling actor wait until one of the actors has succeeded or all have ended."""
        actor = self.current
        assert actor is not None
        if not _is_over(actors):
            actor.waits_for = actors
            self.ready.remove(actor)
            self.waiting.append(actor)
            self._main.switch()
        if actor.process.is_dead:
            raise Killed

    def kill(self, process: Process) -> None:
        """Kills a process: none of its actors makes another request."""
        process.is_dead = True
        self._killed.append(process)

    def run(self, until: Iterable[Actor] = (), steps: int = MAX_STEPS) -> None:
        """Runs until no actor can go on, or those named have ended, or so many steps were made."""
        ends, last = list(until), self.steps + steps
        while self.ready and self.steps < last and not (ends and all(actor.has_ended for actor in ends)):
            self.steps += 1
            assert self.steps < MAX_STEPS, f"the actors do not come to an end within {MAX_STEPS} steps"
            self._switch_to(self.choose())
            while self._killed:
                self._bury(self._killed.pop())

    def suspend(self, actors: Iterable[Actor]) -> list[Actor]:
        """Takes actors out until `resume`; returns those that had not ended."""
        suspended = [actor for actor in actors if actor in self.ready]
        self.ready = [actor for actor in self.ready if actor not in suspended]
        return suspended

    def resume(self, actors: Iterable[Actor]) -> None:
        """Lets suspended actors go on."""
        self.ready.extend(actors)

    def _switch_to(self, actor: Actor) -> None:
        self.current = actor
        actor.run.switch()
        self.current = None
        if actor.has_ended:
            self.ready.remove(actor)
            for other in [other for other in self.waiting if _is_over(other.waits_for)]:
                self.waiting.remove(other)
                self.ready.append(other)

    def _bury(self, process: Process) -> None:
        for actor in [actor for actor in self.waiting if actor.process is process]:
            self.waiting.remove(actor)
            self.ready.append(actor)
        for actor in [actor for actor in self.ready if actor.process is process]:
            self._switch_to(actor)

    def _uniformly(self) -> Actor:
        return self.ready[int(self.random.random() * len(self.ready))]

    def _in_bursts(self) -> Actor:
        if self._last not in self.ready or self.random.random() < 0.1:
            self._last = self._uniformly()
        assert self._last is not None
        return self._last

    def _by_priority(self) -> Actor:
        if self.steps in self._changes:
            max(self.ready, key=lambda actor: actor.priority).priority -= 1
        return max(self.ready, key=lambda actor: actor.priority)

    def _with_long_sleeps(self) -> Actor:
        awake = [actor for actor in self.ready if not actor.sleeps]
        if not awake:
            awake = self.ready
            for actor in awake:
                actor.sleeps = False
        actor = awake[int(self.random.random() * len(awake))]
        actor.sleeps = self.random.random() < 0.04
        return actor

    def _with_critical_sleeps(self) -> Actor:
        awake = [actor for actor in self.ready if not actor.sleeps]
        if not awake or self.steps == self._wakes_at:
            awake = self.ready
            for actor in awake:
                actor.sleeps = False
        actor = awake[int(self.random.random() * len(awake))]
        if actor.request == self._point:
            self._until_sleep -= 1
            if self._until_sleep == 0:
                actor.sleeps = True
                self._wakes_at = self.steps + self.random.choice([20, 60, 200, MAX_STEPS])
                self._draw_point()
                self.when_asleep()
                return self._with_critical_sleeps()
        return actor

    def _draw_point(self) -> None:
        self._point = self.random.choice(self._critical)
        self._until_sleep = self.random.randrange(1, self.random.choice([2, 4, 13]))


def _is_over(actors: Sequence[Actor]) -> bool:
    return any(actor.succeeded for actor in actors) or all(actor.has_ended for actor in actors)
