"""Chat templates as models carry them, cut down to what is peculiar in each."""

from __future__ import annotations

from relaylite.prompt.template import CHATML

# Bodies are trimmed; the system turn says what day it is.
LLAMA_3 = r"""
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = '' %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\n\nToday Date: ' + strftime_now('%d %b %Y') + '\n\n' }}
{{- system_message + '<|eot_id|>' }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}"""

# No system role, roles must alternate, bodies are trimmed.
GEMMA_2 = r"""
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {{- raise_exception('System role not supported') }}
{%- endif %}
{%- for message in messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {%- set role = 'model' if message['role'] == 'assistant' else 'user' %}
    {{- '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<start_of_turn>model\n' }}
{%- endif %}"""

# The system text goes to the last question; roles must alternate after it.
MISTRAL = r"""
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('conversation roles must alternate') }}
    {%- endif %}
    {%- if message['role'] == 'user' and loop.last and system_message is defined %}
        {{- '[INST]' + system_message + '\n\n' + message['content'] + '[/INST]' }}
    {%- elif message['role'] == 'user' %}
        {{- '[INST]' + message['content'] + '[/INST]' }}
    {%- else %}
        {{- message['content'] + eos_token }}
    {%- endif %}
{%- endfor %}"""

# Thoughts of earlier answers go.
QWEN_3 = r"""
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'assistant' and '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}"""

# No text between the system body and what follows; thoughts go, the line breaks behind them stay.
DEEPSEEK_R1 = r"""
{%- set ns = namespace(system='') -%}
{%- for message in messages -%}
    {%- if message['role'] == 'system' -%}{%- set ns.system = message['content'] -%}{%- endif -%}
{%- endfor -%}
{{ bos_token }}{{ ns.system }}
{%- for message in messages -%}
    {%- if message['role'] == 'user' -%}{{ '<|User|>' + message['content'] }}{%- endif -%}
    {%- if message['role'] == 'assistant' -%}
        {%- set content = message['content'] -%}
        {%- if '</think>' in content -%}{%- set content = content.split('</think>')[-1] -%}{%- endif -%}
        {{ '<|Assistant|>' + content + '<|end|>' }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|Assistant|><think>\n' }}{%- endif -%}"""

# What stands in the instructions changes what is written around them.
SMOLLM_3 = r"""
{%- set ns = namespace(mode='/think', own='') -%}
{%- if messages[0].role == 'system' -%}
    {%- if '/no_think' in messages[0].content -%}{%- set ns.mode = '/no_think' -%}{%- endif -%}
    {%- set ns.own = messages[0].content.replace('/no_think', '').rstrip() -%}
{%- endif -%}
{{- '<|im_start|>system\nReasoning Mode: ' + ns.mode + '\n\n' + ns.own + '<|im_end|>\n' -}}
{%- for message in messages -%}
    {%- if message.role != 'system' -%}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\n' + ('' if ns.mode == '/think' else '<think>\n\n</think>\n') -}}
{%- endif -%}"""

# Thoughts stay, in other wrapping; an answer without any gets none.
REWRAPS = r"""
{%- for message in messages %}
    {%- set content = message.content %}
    {%- set thought = '' %}
    {%- if message.role == 'assistant' and '</think>' in content %}
        {%- set thought = content.split('</think>')[0].split('<think>')[-1].strip() %}
        {%- set content = content.split('</think>')[-1].strip() %}
    {%- endif %}
    {{- '[' + message.role + ': ' }}
    {%- if thought %}
        {{- '<think>' + thought + '</think>' + (' ' if content else '') }}
    {%- endif %}
    {{- content + ']\n' }}
{%- endfor %}"""

# BOS before every question; what is neither question nor answer is left out without a word.
LLAMA_2 = r"""
{%- for message in messages %}
    {%- if message['role'] == 'user' %}
        {{- bos_token + '[INST] ' + message['content'].strip() + ' [/INST]' }}
    {%- elif message['role'] == 'assistant' %}
        {{- ' ' + message['content'].strip() + ' ' + eos_token }}
    {%- endif %}
{%- endfor %}"""

# Answers are written in channels: thoughts, then the final text. Only the latter may come back.
GPT_OSS = r"""
{%- for message in messages -%}
    {%- if message.role == 'system' -%}
        {{- "<|start|>developer<|message|># Instructions\n\n" + message.content + "<|end|>" }}
    {%- elif message.role == 'assistant' -%}
        {%- if "<|channel|>analysis<|message|>" in message.content or "<|channel|>final<|message|>" in message.content %}
            {{- raise_exception("You have passed a message containing <|channel|> tags in the content field.") }}
        {%- endif %}
        {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}
    {%- elif message.role == 'user' -%}
        {{- "<|start|>user<|message|>" + message.content + "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|start|>assistant
{%- endif -%}"""

REAL = {
    "chatml": CHATML,
    "llama-3": LLAMA_3,
    "gemma-2": GEMMA_2,
    "mistral": MISTRAL,
    "qwen-3": QWEN_3,
    "deepseek-r1": DEEPSEEK_R1,
    "smollm-3": SMOLLM_3,
    "rewraps": REWRAPS,
    "llama-2": LLAMA_2,
    "gpt-oss": GPT_OSS,
}
