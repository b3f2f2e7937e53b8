"""What a chat template writes around each role, as a graph's templates want it. No SGLang import."""

from __future__ import annotations

from typing import Any

from sgl_spec.program.text_walk import RoleText, RoleTexts


def role_texts(chat_template: Any) -> RoleTexts:
    """The prefix and suffix of each role of an SGLang `ChatTemplate`, as for a first message."""
    return {
        role: RoleText(*chat_template.get_prefix_and_suffix(role, [])) for role in chat_template.role_prefix_and_suffix
    }
