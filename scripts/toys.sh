#!/usr/bin/env bash
# toys.sh [NAME…]: adds each toy of tests/toys to a copy of the repository, builds it, runs its test, counts
# the files of the product it touched, and sees that no piece of it can be left out in silence. What a toy
# is made of: tests/toys/README.md. Without names all toys; continues after a failed one.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
built=${CARGO_TARGET_DIR:-$root/target}
place=$built/toys
copy=$place/copy
export CARGO_TARGET_DIR=$place/target
log=$place/log
context=-C1

toys=("$@")
[ ${#toys[@]} -gt 0 ] || mapfile -t toys < <(cd tests/toys && ls -d -- */ | tr -d /)

# Files as git sees them, changed ones and new ones too; what is the same keeps its time, so that it is
# not built again.
copy_repository() {
  mkdir -p "$copy"
  local file
  while IFS= read -r -d '' file; do
    [ -f "$file" ] || continue
    cmp -s -- "$file" "$copy/$file" && continue
    mkdir -p "$copy/$(dirname "$file")"
    cp -- "$file" "$copy/$file"
  done < <(git ls-files -z --cached --others --exclude-standard)
  cd "$copy"
  [ -d .git ] || git init -q
  # What is no longer in the repository goes.
  while IFS= read -r -d '' file; do
    [ -f "$root/$file" ] || rm -f -- "$file"
  done < <(git ls-files -z --cached --others --exclude-standard)
  git add -A
  git -c user.name=toys -c user.email=toys@localhost commit -q --allow-empty -m "as it is"
}

# Dependencies that were built already need not be built again. They are copied, not linked: what a build
# script prints is written in place, and a link would change what the repository's own build keeps.
copy_dependencies() {
  local from=$built/debug to=$CARGO_TARGET_DIR/debug part
  [ -d "$from" ] && [ ! -d "$to" ] || return 0
  mkdir -p "$to"
  for part in deps build .fingerprint; do
    [ -d "$from/$part" ] && cp -a --reflink=auto "$from/$part" "$to/$part"
  done
}

reset() { git checkout -q -- . && git clean -fdq; }

# rows KIND: the cells behind rows of that kind.
rows() { awk -F '\t' -v kind="$1" '$1 == kind { sub(/^[^\t]*\t/, ""); print }' "$toy/toy.tsv"; }

# put_in [PIECE]: the whole toy, or all but one patch or file.
put_in() {
  local piece=${1-} file
  for file in "$toy"/*.patch; do
    [ -f "$file" ] || continue
    [ "$(basename "$file")" = "$piece" ] && continue
    git apply "$context" "$file" || { echo "$(basename "$file") does not apply: the code it changes has moved"; return 1; }
  done
  if [ -d "$toy/files" ]; then
    while IFS= read -r -d '' file; do
      file=${file#"$toy/files/"}
      [ "$file" = "$piece" ] && continue
      mkdir -p "$(dirname "$file")"
      cp -- "$toy/files/$file" "$file"
    done < <(find "$toy/files" -type f -print0)
  fi
}

write_pages() {
  local page command
  while IFS=$'\t' read -r page command; do
    [ -n "$page" ] || continue
    UPDATE=1 bash -c "$command" >"$log" 2>&1 || { tail -40 "$log"; echo "cannot write $page: $command"; return 1; }
  done < <(rows written)
}

# What git reports, without tests; new files stand for the row they are below.
touched() {
  git status --porcelain --untracked-files=all | cut -c4- | grep -vE '(^|/)tests/' | while IFS= read -r file; do
    local new
    while IFS= read -r new; do
      [ -n "$new" ] && case $file in "$new" | "$new"/*) file=$new ;; esac
    done < <(rows new)
    echo "$file"
  done | sort -u
}

stated() { { rows new; rows touches; rows named; rows written | cut -f1; } | sort -u; }

check_toy() {
  local what command piece count
  reset
  put_in || return 1
  scripts/format.sh --check >"$log" 2>&1 || { tail -40 "$log"; echo "it is not formatted"; return 1; }
  write_pages || return 1
  if ! diff <(stated) <(touched) >"$log"; then
    echo "what toy.tsv says it touches (<) is not what git says (>):"
    grep '^[<>]' "$log"
    return 1
  fi
  count=$({ rows new; rows touches; } | sort -u | wc -l)
  echo "adds $(rows adds): $count of the product, $(rows named | sort -u | wc -l) more that are named, $(rows written | wc -l) written"
  while IFS= read -r command; do
    bash -c "$command" </dev/null >"$log" 2>&1 || { tail -60 "$log"; echo "its test fails: $command"; return 1; }
    echo "good: $command"
  done < <(rows test)
  # With the whole toy they pass: else their failing says nothing.
  while IFS= read -r command; do
    bash -c "$command" </dev/null >"$log" 2>&1 || { tail -60 "$log"; echo "fails with the whole toy: $command"; return 1; }
  done < <(rows without | cut -f2 | sort -u)
  while IFS=$'\t' read -r piece command; do
    reset
    put_in "$piece" || return 1
    if bash -c "$command" </dev/null >"$log" 2>&1; then
      echo "nothing fails without $piece: $command"
      return 1
    fi
    echo "fails without $piece: $command"
  done < <(rows without)
}

mkdir -p "$place"
copy_repository
copy_dependencies
failed=()
for name in "${toys[@]}"; do
  toy=$root/tests/toys/$name
  printf '\n== toy: %s\n' "$name"
  if [ ! -f "$toy/toy.tsv" ]; then
    echo "there is no tests/toys/$name/toy.tsv"
    failed+=("$name")
    continue
  fi
  check_toy || failed+=("$name")
done
reset
if [ ${#failed[@]} -gt 0 ]; then
  printf '\ntoys: failed: %s\n' "${failed[*]}"
  exit 1
fi
printf '\ntoys: all good\n'
