"""The steps of random programs on models: a model `m`, a batch `x`, and an optimizer `opt`.

{result} is the name of a result.
"""

OPTIMIZERS = (
    "torch.optim.SGD(m.parameters(), lr=0.05)",
    "torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, nesterov=True)",
    "torch.optim.SGD(m.parameters(), lr=0.05, weight_decay=0.1, foreach=True)",
    "torch.optim.SGD(m.parameters(), lr=0.05, fused=True)",
    "torch.optim.SGD(m[0].parameters(), lr=0.05, maximize=True)",
    "torch.optim.Adam(m.parameters(), lr=0.05, eps=0.01)",
    "torch.optim.Adam(m.parameters(), lr=0.05, eps=0.01, amsgrad=True, foreach=True)",
    "torch.optim.Adam(m.parameters(), lr=0.05, eps=0.01, fused=True)",
    "torch.optim.AdamW(m.parameters(), lr=0.05, eps=0.01)",
    "torch.optim.AdamW(m.parameters(), lr=0.05, eps=0.01, fused=True)",
    "torch.optim.Adagrad(m.parameters(), lr=0.05, eps=0.01)",
    "torch.optim.Adagrad(m.parameters(), lr=0.05, eps=0.01, fused=True)",
    "torch.optim.RMSprop(m.parameters(), lr=0.01, eps=0.01, centered=True)",
    "torch.optim.Adadelta(m.parameters(), eps=0.01)",
    "torch.optim.NAdam(m.parameters(), lr=0.05, eps=0.01)",
    "torch.optim.RAdam(m.parameters(), lr=0.05, eps=0.01)",
    "torch.optim.Adamax(m.parameters(), lr=0.05, eps=0.01)",
    "torch.optim.ASGD(m.parameters(), lr=0.05)",
    "torch.optim.LBFGS(m.parameters(), lr=0.1, max_iter=2)",
)
TRAINING = (
    "opt.zero_grad(); loss(m(x)).backward(); opt.step(lambda: 0.0)",
    "opt.step(closure(m, opt, x))",
    "opt.step(closure(m, opt, x * 0.5))",
    "(loss(m(x)) / 2).backward()",
    "loss(checkpoint(m, x, use_reentrant=False)).backward()",
    "penalty(m, x).backward()",
    "loss(m(x)).backward(); torch.nn.utils.clip_grad_norm_(m.parameters(), 0.1)",
    "loss(m(x)).backward(); torch.nn.utils.clip_grad_value_(m.parameters(), 0.01)",
    "m.zero_grad()",
    "m.zero_grad(set_to_none=False)",
    "opt.load_state_dict(copy.deepcopy(opt.state_dict()))",
    "[p.register_post_accumulate_grad_hook(lambda p: (p.grad.mul_(0.5), None)[1]) "
    "for p in m[0].parameters()]",
)
RESULTS = (
    "{result} = m(x)",
    "{result} = m(x[:1])",
    "with torch.no_grad(): {result} = m(x)",
    "with torch.no_grad(): {result} = m(x)",
    "with torch.inference_mode(): {result} = m(x)",
    "{result} = checkpoint(m, x, use_reentrant=False)",
    "{result} = checkpoint(m, x, use_reentrant=True)",
    "{result} = checkpoint_sequential(m, 2, x, use_reentrant=False)",
    "{result} = traced(m)(x)",
    "{result} = copy.deepcopy(m)(x)",
    "{result} = stored(m)(x)",
    "{result} = functional_call(m, {k: v * 0.5 for k, v in m.named_parameters()}, (x,))",
    "{result} = flat(torch.func.grad(lambda p: loss(functional_call(m, p, (x,))))"
    "(dict(m.named_parameters())).values())",
    "{result} = flat(torch.func.vmap(torch.func.grad(lambda p, v: loss(functional_call(m, p, "
    "(v[None],)))), (None, 0))(dict(m.named_parameters()), x).values())",
    "{result} = torch.func.jvp(lambda p: functional_call(m, p, (x,)), (params(m),), (params(m),))"
    "[1]",
    "{result} = flat(torch.func.jacrev(lambda p: functional_call(m, p, (x,)).mean((0, 1)))"
    "(params(m)).values())",
    "{result} = flat(torch.func.jacfwd(lambda p: functional_call(m, p, (x,)).mean((0, 1)))"
    "(params(m)).values())",
    "{result} = torch.vmap(m)(torch.stack([x, 2 * x]))",
    "{result} = torch.vmap(lambda v: m(v[None]))(x)",
    "{result} = torch.vmap(lambda p, b: functional_call(m, (p, b), (x,)))"
    "(*torch.func.stack_module_state([m, copy.deepcopy(m)]))",
    "{result} = torch.func.jvp(m, (x,), (x.cos(),))[1]",
    "{result} = torch.func.vjp(m, x)[1](x.cos())[0]",
    "{result} = torch.func.jacrev(lambda v: m(v).sum(0))(x)",
    "{result} = torch.func.jacfwd(lambda s: m(x * s).sum(0))(x[0, 0].cos())",
    "{result} = torch.func.hessian(lambda s: loss(m(x * s)))(x[0, 0].cos())",
    "{result} = torch.autograd.functional.hvp(lambda v: loss(m(v)), x, x.cos())[1]",
    "{result} = torch.autograd.functional.jacobian(lambda v: m(v).sum(0), x, vectorize=True)",
    "{result} = torch.autograd.functional.jacobian(lambda v: m(v).sum(0), x, vectorize=True, "
    "strategy='forward-mode')",
    "{result} = tangent(m, x)",
    "ema = AveragedModel(m); ema.update_parameters(m); {result} = ema(x)",
)
COMPILED = (
    "{result} = compiled(m)(x)",
    "loss(compiled(m)(x)).backward()",
    "with torch.no_grad(): {result} = compiled(m)(x)",
    "c = compiled(m); loss(c(x)).backward(); opt.step(lambda: 0.0); {result} = c(x)",
)
WRITES = (
    "for p in m.parameters(): p.data.mul_(0.9)",
    "for p in m.parameters(): p.data = p.data * 0.9",
    "for p in m.parameters(): p.data.copy_(p.data * 0.8)",
    "for p in m.parameters(): p.data[:1] = 0.2",
    "for p in m[0].parameters(): torch.nn.init.constant_(p.data, 0.1)",
    "with torch.no_grad(): [p.add_(0.1) for p in m.parameters()]",
    "with torch.no_grad(): [p.copy_(p * 0.5) for p in m.parameters()]",
    "with torch.no_grad(): [p[:1].mul_(0.5) for p in m.parameters()]",
    "with torch.no_grad(): torch._foreach_mul_(list(m.parameters()), 0.9)",
    "[p.detach().numpy().__imul__(0.9) for p in m.parameters() if not p.is_complex()]",
    "torch.nn.utils.vector_to_parameters("
    "torch.nn.utils.parameters_to_vector(m.parameters()) * 0.9, m.parameters())",
    "m.load_state_dict({k: v * 0.9 for k, v in m.state_dict().items()})",
    "m.load_state_dict({k: v * 0.9 for k, v in m.state_dict().items()}, assign=True)",
    "m = copy.deepcopy(m)",
    "m = stored(m)",
    "m.eval()",
    "m.train()",
    "m[0].requires_grad_(False)",
    "m.requires_grad_()",
    "x = x * 0.5 + 0.1",
    "x = x[:1]",
    "x = x.detach().clone().requires_grad_()",
    "m = torch.nn.Sequential(m, m)",
    "torch.nn.utils.parametrizations.weight_norm(m[0])",
    "torch.nn.utils.parametrizations.spectral_norm(m[0])",
    "torch.nn.utils.prune.l1_unstructured(m[0], 'weight', 0.3)",
    "m[0].register_forward_hook(lambda module, args, y: y * 2)",
    "m[0].register_full_backward_hook(lambda module, before, after: None)",
)
TABLES = {"training": TRAINING, "result": RESULTS, "write": WRITES, "compiled": COMPILED}
WEIGHTS = {"training": 4, "result": 5, "write": 4, "compiled": 0.3}
