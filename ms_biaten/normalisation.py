"""Batch normalisation of the global batch: MindSpore's own, or the same over several workers."""

from mindspore import nn, ops

from ms_biaten import ranks


class GlobalBatchNorm2d(nn.BatchNorm2d):
    """x (1,K,B,1): `nn.BatchNorm2d`, with the mean and variance of all workers' samples.

    In two passes, the variance about the mean: sums of squares would cancel.
    """

    def construct(self, x):
        rows = x.squeeze((0, 3)).swapaxes(0, 1)  # (B,K)
        return self.normalised(rows).swapaxes(0, 1).reshape(x.shape)

    def normalised(self, x):
        if not self.training:
            return (
                ops.rsqrt(self.moving_variance + self.eps) * self.gamma * (x - self.moving_mean)
                + self.beta
            )
        mean = ranks.batch_mean(x)
        apart = x - mean
        variance = ranks.batch_mean(ops.square(apart))
        count = ranks.total(ops.full((1,), float(x.shape[0]), dtype=x.dtype))
        # MindSpore keeps the share of the new batch, and PyTorch's variance of it is unbiased.
        keep = 1.0 - self.momentum
        unbiased = ops.stop_gradient(variance) * (count / (count - 1.0))
        ops.assign(
            self.moving_mean, keep * self.moving_mean + self.momentum * ops.stop_gradient(mean)
        )
        ops.assign(self.moving_variance, keep * self.moving_variance + self.momentum * unbiased)
        return apart * ops.rsqrt(variance + self.eps) * self.gamma + self.beta


def BatchNorm(width, eps, momentum):  # noqa: N802  (a class, as its caller sees it)
    kind = nn.BatchNorm2d if ranks.size() == 1 else GlobalBatchNorm2d
    return kind(width, eps=eps, momentum=momentum)
