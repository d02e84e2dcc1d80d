"""The S3 bucket, where one is given: the way of the revision there and of results back.

The instance needs no permission of its own: it gets presigned URLs. One upload of that kind holds
up to 5 GB (S3 user guide, "Uploading objects").
"""

from __future__ import annotations

from dataclasses import dataclass

from remote.aws import Aws
from remote.failure import AwsRefused, translated

LONGEST = 7 * 24 * 3600  # seconds: SigV4 signs no URL for longer


@dataclass(frozen=True)
class Bucket:
    """Objects of one job."""

    aws: Aws
    name: str
    job: str

    def key(self, name: str) -> str:
        """The key of an object of the job."""
        return f"trnfft-jobs/{self.job}/{name}"

    def put(self, name: str, content: bytes) -> None:
        """Uploads an object."""
        self.aws.call("s3", "put_object", Bucket=self.name, Key=self.key(name), Body=content)

    def get(self, name: str) -> bytes | None:
        """Downloads an object; None where there is none."""
        try:
            answer = self.aws.call("s3", "get_object", Bucket=self.name, Key=self.key(name))
        except AwsRefused as error:
            if error.reason == "NoSuchKey":
                return None
            raise
        with translated():
            return answer["Body"].read()

    def delete(self, name: str) -> None:
        """Deletes an object, if there is one."""
        self.aws.call("s3", "delete_object", Bucket=self.name, Key=self.key(name))

    def url(self, operation: str, name: str, seconds: float) -> str:
        """A URL for get_object or put_object that works without credentials for a while."""
        with translated():
            return self.aws.client("s3").generate_presigned_url(
                operation,
                Params={"Bucket": self.name, "Key": self.key(name)},
                ExpiresIn=int(max(1, min(seconds, LONGEST))),
            )
