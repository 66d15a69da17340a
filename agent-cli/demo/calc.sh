#!/usr/bin/env bash
# calc: sums and averages of whole numbers.
#   bash calc.sh sum 1 2 3     prints 6
#   bash calc.sh mean 1 2 3    prints 2

sum() {
  local total=0 number
  for number in "${@:2}"; do
    total=$((total + number))
  done
  echo "$total"
}

mean() {
  echo $(($(sum "$@") / $#))
}

"$@"
