"""Chat templates by name: ChatML, and those that refuse, change or outlast what they are given."""

from __future__ import annotations

_CHATML_TURN = "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
_CHATML_START = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
_CHATML = "{% for message in messages %}" + _CHATML_TURN + "{% endfor %}" + _CHATML_START
_ALTERNATE = (
    "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% endfor %}"
)

TEMPLATES: dict[str, str] = {
    "chatml": _CHATML,
    # Qwen2.5: says who it is when nobody else does.
    "default-system": (
        "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}" + _CHATML
    ),
    # Prints the BOS that the tokenizer of an SPM vocabulary adds as well.
    "prints-bos": "{{ bos_token }}" + _CHATML,
    # Gemma: no system role, roles alternate, texts are trimmed.
    "no-system": (
        "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        + _ALTERNATE
        + "{% for message in messages %}{{ '<|im_start|>' + ('model' if message['role'] == 'assistant' else message['role']) + '\n'"
        " + message['content'] | trim + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>model\n' }}{% endif %}"
    ),
    # Mistral: a system text becomes part of the first question, roles alternate, an answer ends in EOS.
    "folds-system": (
        "{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] + '\n\n' %}{% set messages = messages[1:] %}"
        "{% else %}{% set system = '' %}{% endif %}{{ bos_token }}"
        + _ALTERNATE
        + "{% for message in messages %}{% if message['role'] == 'user' %}"
        "{{ '[INST] ' + (system if loop.first else '') + message['content'] + ' [/INST]' }}"
        "{% else %}{{ ' ' + message['content'] + eos_token }}{% endif %}{% endfor %}"
    ),
    # Qwen3, DeepSeek-R1: earlier answers lose their thoughts.
    "drops-thoughts": (
        "{% for message in messages %}{% if message['role'] == 'assistant' and '</think>' in message['content'] %}"
        "{{ '<|im_start|>assistant\n' + message['content'].split('</think>')[-1].lstrip('\n') + '<|im_end|>\n' }}"
        "{% else %}" + _CHATML_TURN + "{% endif %}{% endfor %}" + _CHATML_START
    ),
    # Takes content only as a list of typed parts.
    "typed-content": (
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
        "{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}"
        "{{ '<|im_end|>\n' }}{% endfor %}" + _CHATML_START
    ),
    "always-raises": "{{ raise_exception('This model does not chat') }}",
    "invalid": "{% for message in messages %}{{ message['content'] }}",
    "endless": "{% for i in range(1000000000) %}{% for j in range(1000000000) %}{{ i }}{% endfor %}{% endfor %}" + _CHATML,
    "200-kilobytes": "{# " + "x" * 200_000 + " #}" + _CHATML,
}
