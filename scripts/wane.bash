# Bash completion for wane. The words come from the program itself ("wane help --words"), so they are those of the
# version that is installed; this file only knows where a model's name, a file or a folder is expected.

_wane_models() {
    local folder="${WANE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wane}/models" file
    printf '%s\n' smollm2-135m gemma3-270m qwen2.5-coder-0.5b qwen2.5-coder-1.5b
    for file in "$folder"/*.gguf; do
        [ -e "$file" ] && file=${file##*/} && printf '%s\n' "${file%.gguf}"
    done
}

# Fills COMPREPLY from words on standard input, and with files where asked for.
_wane_offer() {
    local current=$1 files=$2
    local IFS=$'\n'
    COMPREPLY=($(compgen -W "$(sort -u)" -- "$current"))
    if [ -n "$files" ]; then
        compopt -o filenames 2>/dev/null
        COMPREPLY+=($(compgen -f -- "$current"))
    fi
}

_wane() {
    local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]} line
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        _wane_offer "$current" "" < <("$program" help --words 2>/dev/null)
        return
    fi
    # "--option=value" arrives in three words.
    [ "$current" = = ] && current=""
    [ "$before" = = ] && before=${COMP_WORDS[COMP_CWORD - 2]}
    case $before in -m) before=--model ;; -c) before=--config ;; esac
    line=$("$program" help --words "$command" 2>/dev/null | grep -m 1 -e "^$before " 2>/dev/null)
    case $line in
    *" MODEL") _wane_offer "$current" files < <(_wane_models) ;;
    *" FILE") _wane_offer "$current" files < /dev/null ;;
    *" VALUE") ;;
    *" VALUE "*) _wane_offer "$current" "" < <(printf '%s\n' ${line#* VALUE }) ;;
    *)
        case $command:${COMP_WORDS[2]}:$current in
        exec:*:[!-]*) COMPREPLY=($(compgen -c -- "$current")) && return ;;
        trace:*:-*) ;;
        trace:stats:* | trace:head:* | trace:validate:*)
            if [ "$COMP_CWORD" -ge 3 ]; then
                _wane_offer "$current" files < /dev/null
                return
            fi ;;
        session:save:* | session:load:* | session:info:*)
            if [ "$COMP_CWORD" -eq 3 ] && [[ $current != -* ]]; then
                _wane_offer "$current" files < /dev/null
                return
            fi ;;
        rollout:plan:*)
            if [[ $current != -* ]]; then
                _wane_offer "$current" files < /dev/null
                return
            fi ;;
        rollout:start:* | rollout:advance:* | rollout:back:* | rollout:abort:*)
            if [ "$COMP_CWORD" -eq 3 ] && [[ $current != -* ]]; then
                _wane_offer "$current" "" < <(printf '%s\n' head table draft memo gate governor)
                return
            fi ;;
        model:get:* | model:path:* | model:info:*)
            if [ "$COMP_CWORD" -eq 3 ]; then
                _wane_offer "$current" "$([ "${COMP_WORDS[2]}" = info ] && echo files)" < <(_wane_models)
                return
            fi ;;
        audit:tail:* | audit:export:* | audit:verify:* | audit:rotate:* | gate:info:* | classify:* | cost:* | bench:compare:* | feedback:export:* | feedback:stats:* | auto-build:* | table:build:* | table:merge:* | table:replay:* | table:info:* | table:verify:* | table:sign:*)
            if [[ $current != -* ]]; then
                _wane_offer "$current" files < /dev/null
                return
            fi ;;
        esac
        # Words come before options: those are offered from the first dash on, or when there are no words.
        local words
        words=$("$program" help --words "$command" 2>/dev/null | sed 's/ .*//')
        if [ "$COMP_CWORD" -eq 2 ] && [[ $current != -* ]] && grep -qv '^-' <<<"$words"; then
            words=$(grep -v '^-' <<<"$words")
        fi
        _wane_offer "$current" "" <<<"$words" ;;
    esac
}

complete -F _wane wane
