"""Threads that exchange at the same time, and interrupted exchanges, cause errors but no aborts."""

import threading
from contextlib import contextmanager

import pytest
import torch
import torch.distributed as dist

from tests.tolerances import transforms
from tests.trnfft.distributed import cases
from tests.trnfft.distributed.cases import Case
from tests.trnfft.distributed.processes import Processes

ROWS = Case("fftn", (6, 5, 4), (2,), (0,), is_complex=False)


def spread():
    return cases.spread(cases.sample(ROWS), ROWS)


def check(spectrum):
    """Fails unless this process's part is of the spectrum of `spread`."""
    tolerance = transforms(6 * 5 * 4, 2, "float64")
    cases.compare(spectrum, torch.fft.fftn(cases.sample(ROWS)), tolerance)


def check_gradient(x, times):
    """Fails unless a gradient of sums of squares of spectra is that: the input, so many times."""
    whole = cases.whole_of(x.detach())
    cases.near(x.grad, 2 * 6 * 5 * 4 * times * whole, transforms(6 * 5 * 4, 2, "float64"))


@contextmanager
def before_waiting(function):
    """What a thread is to do where it waits for an exchange."""
    from trnfft.distributed.run import exchange

    original = exchange.collectives.wait_tensor

    def wait_tensor(x):
        function()
        return original(x)

    exchange.collectives.wait_tensor = wait_tensor
    try:
        yield
    finally:
        exchange.collectives.wait_tensor = original


def energy(x):
    """A number that has to be differentiated by exchanges."""
    import trnfft

    spectrum = trnfft.fftn(x)
    return (spectrum.real * spectrum.real + spectrum.imag * spectrum.imag).sum()


def calls_of_a_second_thread(rank, is_backward):
    """Texts of errors while another thread is in an exchange; checks results around it."""
    import trnfft

    x, inside, go_on, results = spread(), threading.Event(), threading.Event(), []
    loss = energy(x.requires_grad_()) if is_backward else None
    first = threading.current_thread()

    def stop():
        if threading.current_thread() is not first:
            inside.set()
            assert go_on.wait(30)

    def exchange():
        with before_waiting(stop):
            results.append(loss.backward() if is_backward else trnfft.fftn(x))

    other = threading.Thread(target=exchange, name="the other")
    other.start()
    assert inside.wait(30)
    calls = [
        lambda: trnfft.fftn(x),
        lambda: trnfft.dct(x, axis=0),
        lambda: trnfft.convolve(x, torch.ones(2, 2, 2)),
        lambda: energy(spread().requires_grad_()).backward(),
    ]
    texts = [cases.text_of(call) for call in calls]
    whole = trnfft.fft(x, dim=1)  # exchanges nothing
    go_on.set()
    other.join()
    (result,) = results
    if is_backward:
        check_gradient(x, 1)
    else:
        check(result)
    check(trnfft.fftn(x.detach()))
    return texts, whole.shape


@pytest.mark.parametrize("is_backward", [False, True])
def test_two_threads(two, is_backward):
    for texts, shape in two.run(calls_of_a_second_thread, is_backward):
        for kind, text in texts:
            assert kind == "RuntimeError" and "another thread" in text and "the other" in text
            assert "DeviceMesh.from_group" in text
        assert shape == ROWS.shape


def threads_with_groups(rank):
    """How many results are right of two threads at the same time, each with a group of its own."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor

    import trnfft

    x, found = spread(), []
    meshes = [DeviceMesh.from_group(dist.new_group(), "cpu") for _ in range(2)]
    both = threading.Barrier(2)

    def exchange(mesh):
        local = DTensor.from_local(
            x.to_local(), mesh, x.placements, run_check=False, shape=x.shape, stride=x.stride()
        )
        for _ in range(5):
            both.wait(30)
            check(trnfft.fftn(local))
            found.append(True)

    threads = [threading.Thread(target=exchange, args=(mesh,)) for mesh in meshes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(found)


def test_threads_with_groups_of_their_own(two):
    assert two.run(threads_with_groups) == [10, 10]


def refused_on_one(rank):
    """The error where a thread of the first process was refused, and of the other was not."""
    import trnfft

    x = spread()

    def refused():
        thread = threading.Thread(
            target=lambda: found.append(cases.text_of(lambda: trnfft.fftn(x)))
        )
        thread.start()
        thread.join()

    found = []
    with before_waiting(refused if rank == 0 else lambda: None):
        trnfft.fftn(x)
    again = cases.text_of(lambda: trnfft.fftn(x))
    dist.barrier()
    return len(found), again


def test_a_thread_that_was_refused_on_one_process(tmp_path):
    """What the other process goes on with would meet another call, of the same shape perhaps."""
    processes = Processes(2, tmp_path, seconds=20)
    try:
        for _, (kind, text) in processes.run(refused_on_one):
            assert kind == "RuntimeError" and "calls over this process group so far" in text
    finally:
        processes.close()


def interrupted(rank, folder, where):
    """What a process says after it was interrupted, on the first, and on both with a new group."""
    import trnfft

    x = spread().requires_grad_()
    energy(x).backward()  # what is loaded once, so that the other waits for no loading

    def interrupt(*_):
        if rank == 0:
            raise KeyboardInterrupt

    caught = ""
    try:
        if where == "forward":
            with before_waiting(interrupt):
                trnfft.fftn(x)
        elif where == "backward":
            loss = energy(x)
            with before_waiting(interrupt):
                loss.backward()
        else:  # between exchanges of a derivative, in a function that is not of this library
            y = x * 1
            y.register_hook(interrupt)
            energy(y).backward()
    except KeyboardInterrupt:
        caught = "KeyboardInterrupt"
    except RuntimeError:  # of the other, as the first one closes its group
        pass
    texts = [cases.text_of(lambda: trnfft.fftn(x)) for _ in range(2)] if rank == 0 else []
    texts += [cases.text_of(lambda: energy(x).backward())] if rank == 0 else []
    dist.destroy_process_group()
    cases._MESHES.clear()
    dist.init_process_group("gloo", init_method=f"file://{folder}/again", rank=rank, world_size=2)
    check(trnfft.fftn(spread()))
    return caught, texts


@pytest.mark.sweep
@pytest.mark.parametrize("where", ["forward", "backward", "between"])
def test_interrupted_exchanges(tmp_path, where):
    processes = Processes(2, tmp_path, seconds=1)
    try:
        (caught, texts), _ = processes.run(interrupted, str(tmp_path), where)
        assert caught == "KeyboardInterrupt"
        for kind, text in texts:
            assert kind == "RuntimeError" and "was interrupted or has failed" in text
            assert "init_process_group" in text
    finally:
        processes.close()


def failing_alike(rank):
    """The error that all processes raise between exchanges; fails unless the next is right."""
    import trnfft
    from trnfft.distributed.run import shards

    def refuse(part):
        raise NotImplementedError("on all processes")

    x = spread()
    text = cases.text_of(lambda: shards.apply(refuse, x, (0,)))
    check(trnfft.fftn(x))
    return text


def test_errors_of_all_processes_leave_the_group_as_it_is(two):
    assert two.run(failing_alike) == [("NotImplementedError", "on all processes")] * 2


def checkpointed(rank):
    """Fails unless a gradient for which transforms are computed again is right."""
    from torch.utils.checkpoint import checkpoint

    x = spread().requires_grad_()
    checkpoint(lambda x: energy(x) + energy(2 * x), x, use_reentrant=False).backward()
    check_gradient(x, 1 + 2**2)


def test_calls_inside_of_a_backward_pass(two):
    two.run(checkpointed)
