"""The command `trnfft check`, also for torchrun: torchrun ... -m trnfft.distributed.check."""

from trnfft.__main__ import prepare

if __name__ == "__main__":
    prepare()
    import typer

    from trnfft.cli.check import check

    typer.run(check)
