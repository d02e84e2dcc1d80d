import torch, trnfft


def test_x(launches, counted):
    x = torch.randn(3, 64)
    d = x.to("neuron")
    y = trnfft.fft(d)
    assert (y.cpu().to_complex() - torch.fft.fft(x)).abs().max() < 1e-4
    with counted() as c:
        y = trnfft.fft(d)
    print(launches, c)
    w = torch.randn(5, 64, device="neuron", requires_grad=True)
    z = trnfft.rfft(w)
    loss = (z.real**2 + z.imag**2).sum()
    loss.backward()
    print(w.grad.cpu()[0, :3], w.detach().cpu()[0, :3], launches)

