"""What programs make of the document that a command has printed, and of its error."""

import pytest

from tidegate.cli.documents import ServiceLost, document_of, may_pass
from tidegate.errors import ConfigError, TidegateError


def test_a_command_without_a_document_may_be_tried_again():
    with pytest.raises(ServiceLost, match=r"error\[service_lost\]") as caught:
        document_of("", "error[service_lost]: the service ended\n")
    assert caught.value.retryable
    with pytest.raises(ConfigError, match="no such stream"):
        document_of('{"error": {"code": "config", "message": "no such stream", "hint": "h"}, "exit_code": 2}', "")


def test_only_errors_that_may_pass_are_retried():
    kinds = [TidegateError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    for kind in kinds:
        error = kind("m")
        passing = may_pass(error)
        assert not (passing and error.exit_code in (2, 3, 4)), f"{kind.__name__} needs a person"
        assert passing or error.exit_code != 5, f"{kind.__name__}: another runner ends by itself"
    assert {kind.code for kind in kinds if may_pass(kind("m"))} >= {"source_unavailable", "lease_held", "service_lost"}
    assert "source_refused" not in {kind.code for kind in kinds if may_pass(kind("m"))}
