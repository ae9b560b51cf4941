package quantities

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	// maxExponent is the largest power of ten. Upstream's own limit of a quantity is 2^63.
	maxExponent = 99
	// maxDigits is the largest number of digits, before and after the point.
	maxDigits = 64
)

var errSize = errors.New("a quantity may have at most " + strconv.Itoa(maxDigits) + " digits and an exponent from -" +
	strconv.Itoa(maxExponent) + " to " + strconv.Itoa(maxExponent))

// check refuses the text of a quantity that is too large. What is no quantity at all
// it leaves to the parser, which sees that at once.
func check(text string) error {
	text = strings.TrimSpace(text)
	number := strings.TrimLeft(text, "+-")
	end := 0
	for end < len(number) && inNumber(number[end]) {
		end++
	}
	mantissa, suffix := number[:end], number[end:]
	if end-strings.Count(mantissa, ".") > maxDigits {
		return fmt.Errorf("Invalid value: %q: %w", short(text), errSize)
	}
	if suffix == "" || suffix[0] != 'e' && suffix[0] != 'E' {
		return nil
	}
	exponent := strings.TrimLeft(strings.TrimLeft(suffix[1:], "+-"), "0")
	if exponent == "" || strings.Trim(exponent, "0123456789") != "" {
		return nil
	}
	if n, err := strconv.Atoi(exponent); err != nil || n > maxExponent {
		return fmt.Errorf("Invalid value: %q: %w", short(text), errSize)
	}
	return nil
}

func short(text string) string {
	if len(text) > maxDigits {
		return text[:maxDigits] + "..."
	}
	return text
}

func digit(c byte) bool    { return c-'0' <= 9 }
func inNumber(c byte) bool { return digit(c) || c == '.' }

// suspicious says whether data may hold the text of a quantity that is too large.
// In protobuf any byte may stand before and after a text.
func suspicious(data []byte, protobuf bool) bool {
	if !protobuf && bytes.Contains(data, []byte(`\u`)) {
		return true
	}
	for i := 0; i < len(data); i++ {
		if !inNumber(data[i]) {
			continue
		}
		begin := i
		for i < len(data) && inNumber(data[i]) {
			i++
		}
		if i-begin > maxDigits {
			return true
		}
		if i == len(data) || data[i] != 'e' && data[i] != 'E' {
			continue
		}
		at := i + 1
		if at < len(data) && (data[at] == '+' || data[at] == '-') {
			at++
		}
		exponent := at
		for at < len(data) && digit(data[at]) {
			at++
		}
		if at-exponent < 3 {
			continue
		}
		if protobuf || (begin == 0 || !word(data[begin-1]) || begin > 1 && data[begin-2] == '\\') && (at == len(data) || !word(data[at])) {
			return true
		}
	}
	return false
}

// word is what stands neither before nor after a quantity in JSON, but for the letter
// of an escape such as \n before it: most such text is a part of a digest.
func word(c byte) bool { return digit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' }
