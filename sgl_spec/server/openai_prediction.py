"""The field `prediction` of OpenAI's `/v1/chat/completions`: SGLang's chat endpoint with a predicted output.

Where it stands in a round: before the first (the prediction becomes the hint's `predict`) and after the last (usage
tells how much of it the completion took). SGLang lets a tokenizer manager name its chat class (`serving_chat_class`)
but lets nobody name the tokenizer manager; so `plugin` puts this subclass in the place of SGLang's class. Requests
without a prediction, and all requests of a server that runs another algorithm, take SGLang's own way.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from fastapi import Request
from pydantic import PrivateAttr
from sglang.srt.entrypoints.openai.protocol import (
    ChatCompletionRequest,
    ChatCompletionResponse,
    CompletionTokensDetails,
    UsageInfo,
)
from sglang.srt.entrypoints.openai.serving_chat import OpenAIServingChat

from sgl_spec.server.algorithm import decodes_here
from sgl_spec.server.prediction_field import PredictionCounts, PredictionTally, read_prediction, with_prediction

logger = logging.getLogger(__name__)

FIELD = "prediction"
_DATA = "data: "


class PredictedRequest(ChatCompletionRequest):
    """A chat request that came with a prediction, and what became of that."""

    _tally: PredictionTally = PrivateAttr()


class PredictionTokensDetails(CompletionTokensDetails):
    """`completion_tokens_details` as OpenAI gives them. `completion_tokens` stays what was generated: OpenAI adds the
    rejected tokens to it, which it bills."""

    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class PredictionUsage(UsageInfo):
    """`usage` of a request with a prediction. Pydantic writes a field as the type it is declared with."""

    completion_tokens_details: PredictionTokensDetails | None = None


class PredictedResponse(ChatCompletionResponse):
    """The answer to a request with a prediction."""

    usage: PredictionUsage


class PredictingServingChat(OpenAIServingChat):
    """SGLang's handler of `/v1/chat/completions`, with the field `prediction`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._drafts = decodes_here()
        self.unused_predictions: dict[str, int] = {}

    async def handle_request(self, request: Any, raw_request: Request) -> Any:
        value = await self._prediction(raw_request)
        if value is not None:
            read = read_prediction(value)
            if read.field is not None:
                return self.create_error_response(f"{read.field}: {read.wrong}", param=read.field)
            request = self._predicted(request, read.text)
        return await super().handle_request(request, raw_request)

    async def _prediction(self, raw_request: Request) -> object | None:
        """The field as it was sent: SGLang's request type drops what it does not know, but the parsed body is kept."""
        if not self._drafts or not isinstance(raw_request, Request):
            return None  # a request over gRPC has no body to look at
        body = await raw_request.json()
        return body.get(FIELD) if isinstance(body, dict) else None

    def _predicted(self, request: ChatCompletionRequest, text: str) -> PredictedRequest:
        params = with_prediction(request.custom_params, text)
        if params.unused is not None:
            self._note_unused(params.unused)
        predicted = PredictedRequest.model_construct(set(request.model_fields_set), **dict(request))
        predicted.custom_params = params.custom_params
        predicted._tally = PredictionTally(text, request.n)
        return predicted

    def _note_unused(self, reason: str) -> None:
        count = self.unused_predictions[reason] = self.unused_predictions.get(reason, 0) + 1
        if count == 1:
            logger.warning("a prediction was not used (%s); its request goes on. Later ones are counted.", reason)

    def _build_chat_response(self, request: Any, ret: list[dict[str, Any]], created: int) -> Any:
        if isinstance(request, PredictedRequest):
            for index, one in enumerate(ret):
                request._tally.note(index, one["meta_info"])
        return super()._build_chat_response(request, ret, created)

    async def _handle_non_streaming_request(self, adapted_request: Any, request: Any, raw_request: Request) -> Any:
        response = await super()._handle_non_streaming_request(adapted_request, request, raw_request)
        if not isinstance(request, PredictedRequest) or not isinstance(response, ChatCompletionResponse):
            return response
        return _with_details(response, await self._counts(request._tally))

    def _generate_stream_content(self, content: dict[str, Any], index: int, request: Any, **rest: Any) -> Any:
        if isinstance(request, PredictedRequest):
            request._tally.note(index, content["meta_info"])
        return super()._generate_stream_content(content=content, index=index, request=request, **rest)

    def _generate_chat_stream(self, adapted_request: Any, request: Any, raw_request: Request) -> Any:
        chunks = super()._generate_chat_stream(adapted_request, request, raw_request)
        return self._with_usage(chunks, request._tally) if isinstance(request, PredictedRequest) else chunks

    async def _with_usage(self, chunks: AsyncGenerator[str, None], tally: PredictionTally) -> AsyncGenerator[str, None]:
        """The same stream; the chunk that `stream_options.include_usage` asks for has the counts too."""
        async with aclosing(chunks):
            async for chunk in chunks:
                # A cheap look first: quotes within a text are escaped, so no text has this.
                if '"choices":[]' in chunk and '"usage":{' in chunk:
                    chunk = _chunk_with_details(chunk, await self._counts(tally))
                yield chunk

    async def _counts(self, tally: PredictionTally) -> PredictionCounts:
        tokens = 0
        if tally.untold:
            # Off the event loop, as SGLang tokenizes prompts: a text may have megabytes.
            tokens = await asyncio.get_running_loop().run_in_executor(None, self._tokens_in, tally.text)
        return tally.total(tokens)

    def _tokens_in(self, text: str) -> int:
        tokenizer = self.tokenizer_manager.tokenizer
        return 0 if tokenizer is None else len(tokenizer.encode(text, add_special_tokens=False))


def _details(reasoning_tokens: int | None, counts: PredictionCounts) -> PredictionTokensDetails:
    return PredictionTokensDetails(
        reasoning_tokens=reasoning_tokens or 0,
        accepted_prediction_tokens=counts.accepted,
        rejected_prediction_tokens=counts.rejected,
    )


def _with_details(response: ChatCompletionResponse, counts: PredictionCounts) -> PredictedResponse:
    details = _details(response.usage.reasoning_tokens, counts)
    usage = PredictionUsage(**{**dict(response.usage), "completion_tokens_details": details})
    return PredictedResponse(**{**dict(response), "usage": usage})


def _chunk_with_details(chunk: str, counts: PredictionCounts) -> str:
    event: dict[str, Any] = json.loads(chunk.removeprefix(_DATA))
    usage: Mapping[str, Any] = event["usage"]
    details = _details(usage.get("reasoning_tokens"), counts)
    event["usage"] = {**usage, "completion_tokens_details": details.model_dump()}
    return f"{_DATA}{json.dumps(event, ensure_ascii=False, separators=(',', ':'))}\n\n"
