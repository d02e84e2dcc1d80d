"""The S3 bucket through which the revision and the results travel, where the user names one.

The instance gets presigned URLs, so that it needs no permission of its own. One such upload holds
up to 5 GB (S3 user guide, "Uploading objects").
"""

from __future__ import annotations

from dataclasses import dataclass

from remote.aws import Aws
from remote.failure import AwsRefused, translated

LONGEST = 7 * 24 * 3600  # seconds; SigV4 signs no URL for longer


@dataclass(frozen=True)
class Bucket:
    """The objects of one job."""

    aws: Aws
    name: str
    job: str

    def key(self, name: str) -> str:
        """Returns the key of an object of the job."""
        return f"trnfft-jobs/{self.job}/{name}"

    def put(self, name: str, content: bytes) -> None:
        """Uploads an object."""
        self.aws.call("s3", "put_object", Bucket=self.name, Key=self.key(name), Body=content)

    def get(self, name: str) -> bytes | None:
        """Downloads an object; returns None where there is none."""
        try:
            answer = self.aws.call("s3", "get_object", Bucket=self.name, Key=self.key(name))
        except AwsRefused as error:
            if error.reason == "NoSuchKey":
                return None
            raise
        with translated():
            return answer["Body"].read()

    def delete(self, name: str) -> None:
        """Deletes an object if it exists."""
        self.aws.call("s3", "delete_object", Bucket=self.name, Key=self.key(name))

    def url(self, operation: str, name: str, seconds: float) -> str:
        """Returns a URL for get_object or put_object that needs no credentials for some seconds."""
        with translated():
            return self.aws.client("s3").generate_presigned_url(
                operation,
                Params={"Bucket": self.name, "Key": self.key(name)},
                ExpiresIn=int(max(1, min(seconds, LONGEST))),
            )
