"""What local runs are spared: how a worker behaves is tested by the runs of test_generate.py."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import weakref

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.runners.worker import statesampler
from apache_beam.runners.worker.statesampler import DEFAULT_SAMPLING_PERIOD_MS, StateSampler
from apache_beam.transforms import userstate
from apache_beam.utils.counters import CounterFactory

import beam_datasets as bd
from beam_datasets.transforms import workers
from beam_datasets.transforms.engine import choose_engine
from tests.end_to_end.test_determinism import digests
from tests.reading.conftest import write_dataset

_SEEN = userstate.CombiningValueStateSpec("seen", VarIntCoder(), sum)
_TIMER = userstate.TimerSpec("timer", beam.TimeDomain.WATERMARK)
_SEEN_PARAMETER, _TIMER_PARAMETER = beam.DoFn.StateParam(_SEEN), beam.DoFn.TimerParam(_TIMER)


class _Plain(beam.DoFn):
    def process(self, element):
        yield element


class _Stateful(beam.DoFn):
    def process(self, element, seen=_SEEN_PARAMETER, timer=_TIMER_PARAMETER):
        yield element

    @userstate.on_timer(_TIMER)
    def expired(self):
        pass


def _period():
    return StateSampler("stage", CounterFactory()).sampling_period_ms


def test_the_end_of_a_bundle_is_waited_for_a_few_milliseconds_at_most(tmp_path):
    for num_workers in (1, 2):
        with choose_engine(None, num_workers=num_workers).runner(str(tmp_path / "log")):
            assert _period() < 10
        assert _period() == DEFAULT_SAMPLING_PERIOD_MS


def test_what_is_not_known_is_left_alone(monkeypatch):
    monkeypatch.setattr(StateSampler.__init__, "__defaults__", (123,))
    with workers.sparing():
        assert _period() == 123
    assert _period() == 123


@pytest.mark.parametrize("home, name", [(statesampler, "DEFAULT_SAMPLING_PERIOD_MS"), (userstate, "get_dofn_specs")])
def test_what_is_not_there_is_not_missed(monkeypatch, home, name):
    before = _period()
    monkeypatch.delattr(home, name)
    with workers.sparing():
        assert _period() == before
        assert not hasattr(home, name)


def test_of_two_runs_at_once_the_first_spares():
    look = userstate.get_dofn_specs
    first, second = workers.sparing(), workers.sparing()
    first.__enter__()
    second.__enter__()
    assert _period() < 10
    first.__exit__(None, None, None)
    assert (_period(), userstate.get_dofn_specs) == (DEFAULT_SAMPLING_PERIOD_MS, look)
    second.__exit__(None, None, None)
    assert (_period(), userstate.get_dofn_specs) == (DEFAULT_SAMPLING_PERIOD_MS, look)


def test_a_dofn_is_inspected_once_and_found_to_be_what_it_is():
    dofns = [_Plain(), _Stateful(), _Plain()]
    expected = [userstate.get_dofn_specs(dofn) for dofn in dofns]
    assert expected[:2] == [(set(), set()), ({_SEEN}, {_TIMER})]
    look = userstate.get_dofn_specs
    with workers.sparing():
        first, second = ([userstate.get_dofn_specs(dofn) for dofn in dofns] for _ in range(2))
        assert first == second == expected
        assert all(one is other for one, other in zip(first, second))
        assert [userstate.is_stateful_dofn(dofn) for dofn in dofns] == [False, True, False]
    assert userstate.get_dofn_specs is look


def test_no_dofn_is_kept_and_none_is_taken_for_one_that_was():
    with workers.sparing():
        for i in range(50):  # one is often put where the one before was
            dofn = _Stateful() if i % 2 else _Plain()
            assert userstate.is_stateful_dofn(dofn) == bool(i % 2)
        gone = weakref.ref(dofn)
        del dofn
        gc.collect()
        assert gone() is None


_INTERRUPTED = """
import os, signal, sys, threading
import beam_datasets
from beam_datasets.transforms import workers

threading.Thread(target=threading.Event().wait, daemon=True).start()  # so that nothing is forked
popen, begun = workers.subprocess.Popen, []

class Interrupted(popen):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if "sdk_worker_main" in self.args[-1]:
            begun.append(self.pid)
            if sys.argv[3] == "begins":
                os.kill(os.getpid(), signal.SIGINT)
            elif len(begun) == 1:
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()  # long before it has imported Beam

    def kill(self):
        super().kill()
        if sys.argv[3] == "ends":
            os.kill(os.getpid(), signal.SIGINT)

workers.subprocess.Popen = Interrupted
"""


_INTERRUPTED_FORK = """
import os, signal, sys
import beam_datasets
from beam_datasets.transforms import workers

fork, begun = os.fork, []

def interrupted():
    begun.append(fork())
    if begun[-1]:
        os.kill(os.getpid(), signal.SIGINT)
    return begun[-1]

os.fork = interrupted
"""


_ENDING = """
try:
    beam_datasets.materialize(sys.argv[1], to="made", data_dir=sys.argv[2], filter=bool, num_workers=3)
except KeyboardInterrupt:
    for pid in begun:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            print("ended")
"""


@pytest.mark.parametrize(
    "script, again",
    [(_INTERRUPTED, ""), (_INTERRUPTED, "begins"), (_INTERRUPTED, "ends"), (_INTERRUPTED_FORK, "")],
    ids=["once", "while they begin", "while they end", "while they are forked"],
)
def test_a_run_that_is_interrupted_ends_with_its_workers(tmp_path, script, again):
    source = write_dataset(tmp_path / "source" / "1.0.0", {"train": [40, 30]}, manifest=True)
    command = [sys.executable, "-c", script + _ENDING, str(source), str(tmp_path / "out"), again]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert set(done.stdout.split()) == {"ended"}, done.stderr
    assert not (tmp_path / "out").exists()


_INTERRUPTED_END = """
import gc, os, signal, sys
from beam_datasets.transforms import workers

end = workers._end

def interrupted(pid):
    end(pid)
    os.kill(os.getpid(), signal.SIGINT)

workers._end = interrupted
try:
    with workers.ForkedWorkers(2, sys.argv[1]):
        assert gc.get_freeze_count() > 0
except KeyboardInterrupt:
    print(gc.get_freeze_count())
"""


def test_nothing_stays_frozen_where_the_end_is_interrupted(tmp_path):
    command = [sys.executable, "-c", _INTERRUPTED_END, str(tmp_path / "log")]
    assert subprocess.check_output(command, text=True, timeout=60) == "0\n"


def test_an_interrupt_that_is_held_comes_afterwards():
    def run(error=None):
        with workers._interrupts_held():
            signal.raise_signal(signal.SIGINT)
            done.append(error)
            if error is not None:
                raise error

    done = []
    for error in (None, OSError):
        with pytest.raises(KeyboardInterrupt):
            run(error)
    assert done == [None, OSError]


def test_what_begins_while_interrupts_are_held_ignores_them_as_before():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with workers._interrupts_held():
            command = [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGINT).name)"]
            assert subprocess.check_output(command, text=True) == "SIG_IGN\n"
    finally:
        signal.signal(signal.SIGINT, before)


def test_new_workers_make_the_same_bytes(tmp_path, monkeypatch):
    source = write_dataset(tmp_path / "source" / "1.0.0", {"train": [40, 30]}, manifest=True)
    monkeypatch.setattr(workers, "can_fork", lambda: False)
    pools, take = [], workers.NewWorkers.take

    def counted(pool, settings):
        pools.append(pool)
        return take(pool, settings)

    monkeypatch.setattr(workers.NewWorkers, "take", counted)
    asked = {"split": "train", "to": "made", "filter": bool}
    made = [bd.materialize(source, data_dir=tmp_path / str(n), num_workers=n, **asked) for n in (1, 2)]
    assert digests(made[0]) == digests(made[1])
    assert len(pools) == 2
    assert not workers._pools
