package command

import (
	"strconv"
	"strings"
)

// Numbers reads arguments as merge requests of one repository: #12, the same with the host's own mark (!12), 12, or the address url gives that number,
// with or without what browsers add to it. Commas may stand between them. others are the arguments that are none of these, as written.
func Numbers(args []string, mark string, url func(number int) string) (numbers []int, others []string) {
	for _, arg := range args {
		for word := range strings.SplitSeq(arg, ",") {
			if word == "" {
				continue
			}
			if n, ok := number(word, mark, url); ok {
				numbers = append(numbers, n)
			} else {
				others = append(others, word)
			}
		}
	}
	return numbers, others
}

func number(word, mark string, url func(number int) string) (int, bool) {
	digits := strings.TrimPrefix(word, "#")
	if digits == word && mark != "" {
		digits = strings.TrimPrefix(word, mark)
	}
	if n, ok := positive(digits); ok {
		return n, true
	}
	// An address: the number is whichever makes url give a beginning of it.
	address, _, _ := strings.Cut(word, "#")
	address, _, _ = strings.Cut(address, "?")
	for part := range strings.SplitSeq(address, "/") {
		n, ok := positive(part)
		if !ok || url == nil {
			continue
		}
		if rest, found := strings.CutPrefix(address, url(n)); found && (rest == "" || rest[0] == '/') {
			return n, true
		}
	}
	return 0, false
}

// positive reads plain digits: no sign, no leading zero, no more than any host counts to.
func positive(digits string) (int, bool) {
	if digits == "" || len(digits) > 9 || digits[0] == '0' || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil
}
