# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over NCCL on several ranks: collectives, messages, groups, objects, errors."""

import datetime
import math

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from conformance import fails
from ranks import device, device_ms, filled, main, needs, on_all, rank, world

LARGE = 200_000  # elements: more than gpemu reduces, and more than one of its buffers


def everyone():
    return range(world())


def total():
    """The sum of 1 + rank over all ranks."""
    return world() * (world() + 1) // 2


# ---- Reductions


def reduced(op, dtype=torch.float32, value=None):
    tensor = filled(rank() + 1 if value is None else value, dtype=dtype)
    dist.all_reduce(tensor, op)
    return tensor.tolist()


def test_all_reduce_sum():
    assert reduced(dist.ReduceOp.SUM) == [total()] * 4


def test_all_reduce_average():
    assert reduced(dist.ReduceOp.AVG) == [total() / world()] * 4


def test_all_reduce_product():
    assert reduced(dist.ReduceOp.PRODUCT) == [math.factorial(world())] * 4


def test_all_reduce_minimum_and_maximum():
    assert reduced(dist.ReduceOp.MIN) == [1] * 4
    assert reduced(dist.ReduceOp.MAX) == [world()] * 4


def test_all_reduce_of_every_type():
    for dtype in (
        torch.int8,
        torch.uint8,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float64,
    ):
        assert reduced(dist.ReduceOp.SUM, dtype) == [total()] * 4, dtype


def test_all_reduce_of_flags():
    tensor = torch.tensor([rank() == 0, rank() >= 0, rank() < 0]).to(device())
    dist.all_reduce(tensor)
    assert tensor.tolist() == [True, True, False]


def test_all_reduce_of_complex_numbers():
    tensor = torch.tensor([complex(rank(), 1)]).to(device())
    dist.all_reduce(tensor)
    assert tensor.tolist() == [complex(total() - world(), world())]


def test_all_reduce_premultiplied():
    tensor = filled(rank() + 1)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
    assert tensor.tolist() == [total() / 2] * 4


def test_all_reduce_premultiplied_by_a_tensor():
    tensor = filled(rank() + 1)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(filled(2.0, 1)))
    assert tensor.tolist() == [2 * total()] * 4


def test_all_reduce_with_bits_is_refused():
    for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
        fails(lambda: dist.all_reduce(filled(1, dtype=torch.int32), op), "NCCL")


def test_all_reduce_asynchronous():
    tensor = filled(rank() + 1)
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert work.is_completed() or tensor.tolist()
    assert tensor.tolist() == [total()] * 4


def test_all_reduce_many_at_once():
    tensors = [filled(rank() + i) for i in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in works:
        work.wait()
    for i, tensor in enumerate(tensors):
        assert tensor.tolist() == [total() + world() * (i - 1)] * 4


def test_all_reduce_of_nothing():
    tensor = torch.empty(0, device=device())
    dist.all_reduce(tensor)
    assert tensor.tolist() == []


def test_all_reduce_of_a_view():
    rows = filled(rank() + 1, 4, 3)
    dist.all_reduce(rows[1])
    assert rows[:, 0].tolist() == [rank() + 1, total(), rank() + 1, rank() + 1]


def test_all_reduce_of_what_is_not_contiguous_is_refused():
    fails(lambda: dist.all_reduce(filled(1.0, 4, 3).t()), "contiguous")


def test_all_reduce_of_the_hosts_memory_is_refused():
    fails(lambda: dist.all_reduce(torch.ones(2)), kind=(RuntimeError, ValueError))


def test_reduce():
    for root in everyone():
        tensor = filled(rank() + 1)
        dist.reduce(tensor, root)
        assert rank() != root or tensor.tolist() == [total()] * 4


def test_reduce_scatter():
    inputs = [filled(rank() + 1 + i) for i in everyone()]
    output = filled(0)
    dist.reduce_scatter(output, inputs)
    assert output.tolist() == [total() + world() * rank()] * 4


def test_reduce_scatter_of_uneven_tensors():
    inputs = [filled(rank() + 1, i + 1) for i in everyone()]
    output = filled(0, rank() + 1)
    dist.reduce_scatter(output, inputs)
    assert output.tolist() == [total()] * (rank() + 1)


def test_reduce_scatter_tensor():
    source = torch.arange(4.0 * world()).to(device())
    output = filled(0)
    dist.reduce_scatter_tensor(output, source)
    assert output.tolist() == [world() * (4 * rank() + i) for i in range(4)]


def test_reduce_scatter_tensor_average():
    source = torch.arange(4.0 * world()).to(device())
    output = filled(0)
    dist.reduce_scatter_tensor(output, source, dist.ReduceOp.AVG)
    assert output.tolist() == [4 * rank() + i for i in range(4)]


def test_reduce_scatter_in_place():
    source = torch.arange(4.0 * world()).to(device())
    own = source[4 * rank() : 4 * rank() + 4]
    dist.reduce_scatter_tensor(own, source)
    assert own.tolist() == [world() * (4 * rank() + i) for i in range(4)]


def test_large_sums_are_not_computed():
    tensor = filled(1.0, LARGE)
    dist.all_reduce(tensor)
    assert tensor.shape == (LARGE,) and tensor[0].item() in (0, world())  # EMULATED: 0


# ---- Moves


def test_broadcast():
    for root in everyone():
        tensor = filled(rank() + 1)
        dist.broadcast(tensor, root)
        assert tensor.tolist() == [root + 1] * 4


def test_broadcast_of_every_type():
    for dtype in (torch.bool, torch.int64, torch.float16, torch.complex64):
        tensor = torch.tensor([1 if rank() == 0 else 0, 1]).to(dtype).to(device())
        dist.broadcast(tensor, 0)
        assert tensor.cpu().real.tolist() == [1, 1], dtype


def test_broadcast_of_eight_bit_numbers():
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        tensor = torch.full((4,), float(rank() + 1)).to(dtype).to(device())
        dist.broadcast(tensor, 1)
        assert tensor.cpu().float().tolist() == [2.0] * 4


def test_types_that_nccl_does_not_have_are_refused():
    tensor = torch.zeros(4, dtype=torch.int16, device=device())
    fails(lambda: dist.broadcast(tensor, 0), "NCCL", kind=(TypeError, RuntimeError))


def test_broadcast_of_much():
    values = torch.arange(float(LARGE)) * (1 if rank() == 0 else -1)
    tensor = values.to(device())
    dist.broadcast(tensor, 0)
    assert torch.equal(tensor.cpu(), torch.arange(float(LARGE)))


def test_broadcast_of_nothing():
    dist.broadcast(torch.empty(0, device=device()), 0)


def test_all_gather():
    outputs = [filled(0) for _ in everyone()]
    dist.all_gather(outputs, filled(rank() + 1))
    assert [output.tolist() for output in outputs] == [[i + 1] * 4 for i in everyone()]


def test_all_gather_of_uneven_tensors():
    outputs = [filled(0, i + 1) for i in everyone()]
    dist.all_gather(outputs, filled(rank() + 1, rank() + 1))
    assert [output.tolist() for output in outputs] == [[i + 1] * (i + 1) for i in everyone()]


def test_all_gather_into_tensor():
    output = filled(0, 4 * world())
    dist.all_gather_into_tensor(output, filled(rank() + 1))
    assert output.tolist() == [i + 1 for i in everyone() for _ in range(4)]


def test_all_gather_in_place():
    output = filled(0, 4 * world())
    own = output[4 * rank() : 4 * rank() + 4]
    own.copy_(filled(rank() + 1))
    dist.all_gather_into_tensor(output, own)
    assert output.tolist() == [i + 1 for i in everyone() for _ in range(4)]


def test_all_gather_into_stacked_tensor():
    output = filled(0, world(), 4)
    dist.all_gather_into_tensor(output, filled(rank() + 1))
    assert output[:, 0].tolist() == [i + 1 for i in everyone()]


def test_all_gather_of_much():
    values = torch.arange(float(LARGE))
    output = torch.empty(LARGE * world(), device=device())
    dist.all_gather_into_tensor(output, (values + rank()).to(device()))
    for i, part in enumerate(output.cpu().chunk(world())):
        assert torch.equal(part, values + i)


def test_gather():
    for root in everyone():
        outputs = [filled(0) for _ in everyone()] if rank() == root else None
        dist.gather(filled(rank() + 1), outputs, root)
        if rank() == root:
            assert [output.tolist() for output in outputs] == [[i + 1] * 4 for i in everyone()]


def test_scatter():
    for root in everyone():
        output = filled(0)
        inputs = [filled(10 * root + i) for i in everyone()] if rank() == root else None
        dist.scatter(output, inputs, root)
        assert output.tolist() == [10 * root + rank()] * 4


def test_all_to_all():
    outputs = [filled(0) for _ in everyone()]
    dist.all_to_all(outputs, [filled(10 * rank() + i) for i in everyone()])
    assert [output.tolist() for output in outputs] == [[10 * i + rank()] * 4 for i in everyone()]


def test_all_to_all_single():
    source = torch.arange(2.0 * world()).to(device()) + 100 * rank()
    output = torch.empty_like(source)
    dist.all_to_all_single(output, source)
    expected = [100 * i + 2 * rank() + j for i in everyone() for j in (0, 1)]
    assert output.tolist() == expected


def test_all_to_all_single_with_splits():
    inputs = [i + 1 for i in everyone()]  # To rank i go i + 1 elements.
    outputs = [rank() + 1] * world()
    source = filled(rank(), sum(inputs))
    output = filled(-1, sum(outputs))
    dist.all_to_all_single(output, source, outputs, inputs)
    assert output.tolist() == [i for i in everyone() for _ in range(rank() + 1)]


def test_all_to_all_single_with_empty_splits():
    # Everything goes to the next rank.
    following, before = (rank() + 1) % world(), (rank() - 1) % world()
    inputs = [3 if i == following else 0 for i in everyone()]
    outputs = [3 if i == before else 0 for i in everyone()]
    output = filled(-1, 3)
    dist.all_to_all_single(output, filled(rank(), 3), outputs, inputs)
    assert output.tolist() == [before] * 3


def test_all_to_all_of_uneven_tensors():
    outputs = [filled(0, i + 1) for i in everyone()]
    dist.all_to_all(outputs, [filled(rank(), rank() + 1) for _ in everyone()])
    assert [output.tolist() for output in outputs] == [[i] * (i + 1) for i in everyone()]


# ---- Several collectives at once


def test_all_reduce_coalesced():
    tensors = [filled(rank() + 1), filled(rank() + 2, 7)]
    dist.all_reduce_coalesced(tensors)
    assert tensors[0].tolist() == [total()] * 4
    assert tensors[1].tolist() == [total() + world()] * 7


def test_coalescing_manager():
    tensors = [filled(rank() + i) for i in range(3)]
    with dist._coalescing_manager(device=device()):
        for tensor in tensors:
            dist.all_reduce(tensor)
    for i, tensor in enumerate(tensors):
        assert tensor.tolist() == [total() + world() * (i - 1)] * 4


def test_coalesced_gathers():
    outputs = [filled(0, 4 * world()) for _ in range(2)]
    with dist._coalescing_manager(device=device(), async_ops=True) as manager:
        for i, output in enumerate(outputs):
            dist.all_gather_into_tensor(output, filled(rank() + 10 * i))
    manager.wait()
    for i, output in enumerate(outputs):
        assert output.tolist() == [j + 10 * i for j in everyone() for _ in range(4)]


def test_coalesced_reduce_scatters():
    outputs = [filled(0) for _ in range(2)]
    sources = [torch.arange(4.0 * world()).to(device()) + i for i in range(2)]
    with dist._coalescing_manager(device=device(), async_ops=True) as manager:
        for output, source in zip(outputs, sources):
            dist.reduce_scatter_tensor(output, source)
    manager.wait()
    for i, output in enumerate(outputs):
        assert output.tolist() == [world() * (4 * rank() + j + i) for j in range(4)]


# ---- Messages


def test_send_and_receive():
    if rank() == 0:
        dist.send(filled(7.0), 1)
    elif rank() == 1:
        tensor = filled(0)
        dist.recv(tensor, 0)
        assert tensor.tolist() == [7.0] * 4


def test_messages_around_a_ring():
    tensor = filled(-1)
    own = filled(rank())
    following, before = (rank() + 1) % world(), (rank() - 1) % world()
    if rank() == 0:
        dist.send(own, following)
        dist.recv(tensor, before)
    else:
        dist.recv(tensor, before)
        dist.send(own, following)
    assert tensor.tolist() == [before] * 4


def test_batch_of_messages():
    following, before = (rank() + 1) % world(), (rank() - 1) % world()
    tensor, own = filled(-1), filled(rank())
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, own, following), dist.P2POp(dist.irecv, tensor, before)]
    )
    for work in works:
        work.wait()
    assert tensor.tolist() == [before] * 4


def test_batch_of_messages_to_everyone():
    received = [filled(-1, 2) for _ in everyone()]
    operations = []
    for i in everyone():
        if i != rank():
            operations.append(dist.P2POp(dist.isend, filled(10 * rank() + i, 2), i))
            operations.append(dist.P2POp(dist.irecv, received[i], i))
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    for i in everyone():
        assert received[i].tolist() == [-1 if i == rank() else 10 * i + rank()] * 2


def test_batch_of_messages_to_itself():
    tensor = filled(-1)
    operations = [
        dist.P2POp(dist.isend, filled(rank()), rank()),
        dist.P2POp(dist.irecv, tensor, rank()),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert tensor.tolist() == [rank()] * 4


def test_messages_of_much():
    values = torch.arange(float(LARGE))
    if rank() == 0:
        dist.send(values.to(device()), 1)
    elif rank() == 1:
        tensor = torch.empty(LARGE, device=device())
        dist.recv(tensor, 0)
        assert torch.equal(tensor.cpu(), values)


def test_asynchronous_messages():
    tensor = filled(-1)
    if rank() == 0:
        dist.isend(filled(3.0), 1).wait()
    elif rank() == 1:
        dist.irecv(tensor, 0).wait()
        assert tensor.tolist() == [3.0] * 4


# ---- Objects


def test_objects_from_everyone():
    assert on_all({"rank": rank(), "text": "x" * (10 * rank())}) == [
        {"rank": i, "text": "x" * (10 * i)} for i in everyone()
    ]


def test_objects_to_everyone():
    objects = ["text", {1: 2}, 3.5] if rank() == 1 else [None] * 3
    dist.broadcast_object_list(objects, 1, device=device())
    assert objects == ["text", {1: 2}, 3.5]


def test_objects_to_one():
    objects = [None] * world() if rank() == 0 else None
    dist.gather_object(("from", rank()), objects, 0)
    assert rank() != 0 or objects == [("from", i) for i in everyone()]


def test_objects_one_each():
    output = [None]
    dist.scatter_object_list(output, [f"for {i}" for i in everyone()] if rank() == 0 else None, 0)
    assert output == [f"for {rank()}"]


def test_objects_in_messages():
    if rank() == 0:
        dist.send_object_list(["a", 1], 1, device=device())
    elif rank() == 1:
        objects = [None, None]
        dist.recv_object_list(objects, 0, device=device())
        assert objects == ["a", 1]


# ---- Groups


def test_group_of_two():
    group = dist.new_group([0, 1])
    if rank() < 2:
        tensor = filled(rank() + 1)
        dist.all_reduce(tensor, group=group)
        assert tensor.tolist() == [3] * 4
        assert dist.get_group_rank(group, rank()) == rank()
        dist.destroy_process_group(group)


def test_groups_in_reverse_order():
    group = dist.new_group([1, 0], use_local_synchronization=False)
    if rank() < 2:
        tensor = filled(rank() + 1)
        dist.broadcast(tensor, 1, group=group)
        assert tensor.tolist() == [2] * 4
        dist.destroy_process_group(group)


def test_group_of_one():
    groups = [dist.new_group([i]) for i in everyone()]
    tensor = filled(rank() + 1)
    dist.all_reduce(tensor, group=groups[rank()])
    assert tensor.tolist() == [rank() + 1] * 4
    dist.destroy_process_group(groups[rank()])


def test_overlapping_groups():
    pairs = {(i, i + 1): dist.new_group([i, i + 1]) for i in range(world() - 1)}
    for (first, second), group in pairs.items():
        if rank() in (first, second):
            tensor = filled(rank())
            dist.all_reduce(tensor, group=group)
            assert tensor.tolist() == [first + second] * 4
            dist.destroy_process_group(group)


def test_subgroups():
    group, _ = dist.new_subgroups(group_size=2)
    tensor = filled(rank())
    dist.all_reduce(tensor, group=group)
    first = rank() // 2 * 2
    assert tensor.tolist() == [2 * first + 1] * 4
    dist.destroy_process_group(group)


def test_split_group():
    halves = [list(range(world() // 2)), list(range(world() // 2, world()))]
    group = dist.split_group(split_ranks=halves)
    tensor = filled(rank() + 1)
    dist.all_reduce(tensor, group=group)
    half = halves[0] if rank() in halves[0] else halves[1]
    assert tensor.tolist() == [sum(i + 1 for i in half)] * 4
    dist.destroy_process_group(group)


def test_device_mesh():
    mesh = dist.device_mesh.init_device_mesh("cuda", (world() // 2, 2), mesh_dim_names=("a", "b"))
    tensor = filled(rank())
    dist.all_reduce(tensor, group=mesh.get_group("b"))
    first = rank() // 2 * 2
    assert tensor.tolist() == [2 * first + 1] * 4
    assert mesh["a"].size() == world() // 2


def test_group_on_the_host():
    group = dist.new_group(backend="gloo")
    tensor = torch.full((4,), float(rank() + 1))
    dist.all_reduce(tensor, group=group)
    assert tensor.tolist() == [total()] * 4
    dist.monitored_barrier(group)
    dist.destroy_process_group(group)


def test_calls_outside_a_group():
    group = dist.new_group([0])
    if rank() != 0:
        tensor = filled(5.0)
        assert dist.get_rank(group) == -1
        dist.all_reduce(tensor, group=group)  # PyTorch warns, and does nothing.
        assert tensor.tolist() == [5.0] * 4


# ---- Order and time


def test_barrier():
    for _ in range(3):
        dist.barrier()


def test_barrier_of_one_device():
    dist.barrier(device_ids=[torch.cuda.current_device()])


def test_monitored_barrier_is_refused():
    fails(lambda: dist.monitored_barrier(), "GLOO")


def test_collectives_follow_the_stream():
    stream = torch.cuda.Stream()
    tensor = filled(0)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10**6)
        tensor.copy_(torch.full((4,), float(rank() + 1)).pin_memory(), non_blocking=True)
        dist.all_reduce(tensor)
    stream.synchronize()
    assert tensor.tolist() == [total()] * 4


def test_collectives_wait_for_the_last_rank():
    tensor = filled(1.0)

    def late_first_rank():
        if rank() == 0:
            torch.cuda._sleep(10**9)
        dist.all_reduce(tensor)

    alone = device_ms(lambda: torch.cuda._sleep(10**9))
    assert alone < device_ms(late_first_rank) < 1.1 * alone


def test_larger_reductions_take_longer():
    def milliseconds(elements):
        tensor = torch.empty(elements, device=device())
        dist.all_reduce(tensor)
        return device_ms(lambda: dist.all_reduce(tensor))

    assert milliseconds(2**26) > 8 * milliseconds(2**22)


def test_work_knows_when_it_is_done():
    tensor = filled(1.0)
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    torch.cuda.synchronize()
    assert work.is_completed()
    assert work.get_future().wait()[0].data_ptr() == tensor.data_ptr()


def test_wait_with_a_limit():
    work = dist.all_reduce(filled(1.0), async_op=True)
    assert work.wait(datetime.timedelta(seconds=60))


# ---- Functional collectives


def test_functional_all_reduce():
    assert functional.all_reduce(filled(rank() + 1), "sum", dist.group.WORLD).tolist() == (
        [total()] * 4
    )


def test_functional_all_reduce_average():
    result = functional.all_reduce(filled(rank() + 1), "avg", dist.group.WORLD)
    assert result.tolist() == [total() / world()] * 4


def test_functional_all_gather():
    result = functional.all_gather_tensor(filled(rank()), 0, dist.group.WORLD)
    assert result.tolist() == [i for i in everyone() for _ in range(4)]


def test_functional_all_gather_by_columns():
    result = functional.all_gather_tensor(filled(rank(), 2, 3), 1, dist.group.WORLD)
    assert result.tolist() == [[i for i in everyone() for _ in range(3)]] * 2


def test_functional_reduce_scatter():
    source = torch.arange(4.0 * world()).to(device())
    result = functional.reduce_scatter_tensor(source, "sum", 0, dist.group.WORLD)
    assert result.tolist() == [world() * (4 * rank() + i) for i in range(4)]


def test_functional_all_to_all():
    source = torch.arange(float(world())).to(device()) + 100 * rank()
    ones = [1] * world()
    result = functional.all_to_all_single(source, ones, ones, dist.group.WORLD)
    assert result.tolist() == [100 * i + rank() for i in everyone()]


def test_functional_broadcast():
    result = functional.broadcast(filled(rank()), 1, dist.group.WORLD)
    assert result.tolist() == [1.0] * 4


def test_functional_coalesced():
    results = functional.all_reduce_coalesced(
        [filled(rank() + 1), filled(1.0, 2)], "sum", dist.group.WORLD
    )
    assert [result.tolist() for result in results] == [[total()] * 4, [world()] * 2]
    gathered = functional.all_gather_into_tensor_coalesced(
        [filled(rank(), 1), filled(-rank(), 1)], dist.group.WORLD
    )
    assert [each.tolist() for each in gathered] == [list(everyone()), [-i for i in everyone()]]


def test_functional_permutation():
    result = functional.permute_tensor(
        filled(rank()), [(i + 1) % world() for i in everyone()], dist.group.WORLD
    )
    assert result.tolist() == [(rank() - 1) % world()] * 4


def test_functional_gradient():
    from torch.distributed.nn.functional import all_reduce

    tensor = filled(rank() + 1.0).requires_grad_()
    (all_reduce(tensor) * 2).sum().backward()
    assert tensor.grad.tolist() == [2.0 * world()] * 4


def test_captured_collectives():
    tensor, gathered = filled(rank() + 1.0), filled(0.0, 4 * world())
    dist.all_reduce(filled(1.0))  # NCCL connects the ranks before a graph is captured.
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        dist.all_reduce(tensor)
        dist.all_gather_into_tensor(gathered, tensor)
    assert tensor.tolist() == [rank() + 1.0] * 4
    for launch in range(3):
        graph.replay()
        assert tensor.tolist() == [float(total() * world() ** launch)] * 4
        assert gathered.tolist() == tensor.tolist() * world()


def test_captured_messages():
    sent, received = filled(float(rank())), filled(-1.0)
    after, before = (rank() + 1) % world(), (rank() - 1) % world()

    def exchange():
        messages = [dist.P2POp(dist.isend, sent, after), dist.P2POp(dist.irecv, received, before)]
        for work in dist.batch_isend_irecv(messages):
            work.wait()

    exchange()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        exchange()
    for launch in range(2):
        sent.fill_(rank() + 10.0 * launch)
        graph.replay()
        assert received.tolist() == [before + 10.0 * launch] * 4


# ---- What is refused, and errors


def test_wrong_sizes_are_refused():
    fails(lambda: dist.all_gather_into_tensor(filled(0, 3), filled(1.0, 2)), "size")
    fails(lambda: dist.reduce_scatter_tensor(filled(0, 3), filled(1.0, 2)), "size")
    fails(lambda: dist.all_to_all_single(filled(0, 4), filled(0, 4), [1], [4]))


def test_wrong_roots_are_refused():
    fails(lambda: dist.broadcast(filled(0), world()), kind=Exception)


def test_group_without_a_device_id():
    needs(2)
    group = dist.new_group(list(everyone()), timeout=datetime.timedelta(seconds=30))
    tensor = filled(rank() + 1)
    dist.all_reduce(tensor, group=group)
    assert tensor.tolist() == [total()] * 4
    dist.destroy_process_group(group)


def test_again_after_destruction():
    dist.barrier()
    for _ in range(2):
        group = dist.new_group()
        tensor = filled(rank() + 1)
        dist.all_reduce(tensor, group=group)
        assert tensor.tolist() == [total()] * 4
        dist.destroy_process_group(group)


def test_initialised_again():
    own_rank, ranks = rank(), world()
    first = dist.distributed_c10d._get_default_store()
    for i in range(2):
        dist.destroy_process_group()
        assert not dist.is_initialized()
        store = dist.PrefixStore(f"again {i}", first)
        dist.init_process_group(
            "nccl", store=store, rank=own_rank, world_size=ranks, device_id=device()
        )
        tensor = filled(rank() + 1)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [total()] * 4


if __name__ == "__main__":
    main()
