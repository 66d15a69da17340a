#!/usr/bin/env bash
# The test of calc.sh: one line a case, exit code 1 if any case fails.

failed=0

check() {
  local expected=$1 actual
  shift
  actual=$(bash calc.sh "$@")
  if [ "$actual" = "$expected" ]; then
    echo "ok    $* = $expected"
  else
    echo "FAIL  $* = $actual, but expected $expected"
    failed=1
  fi
}

check 6 sum 1 2 3
check 0 sum
check 2 mean 1 2 3
check 7 mean 7

exit "$failed"
