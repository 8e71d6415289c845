package builtin

import (
	"context"
	"fmt"
	"math/big"
	"strings"

	"github.com/agent-runner/agent-runner/host/tool"
)

type calculatorArgs struct {
	Expression string `json:"expression"`
}

func newCalculator() tool.Tool {
	return define(nameCalculator, "Calculates exactly, with decimals and fractions of any size. "+
		"Knows + - * / % (remainder, with the sign of the dividend) ^ (power), parentheses, pi, and the functions "+
		"abs(x), sqrt(x), floor(x), ceil(x), round(x) or round(x, digits), min(a, b, ...), max(a, b, ...). "+
		"A result that begins with ≈ is rounded.", `{
  "type": "object",
  "properties": {
    "expression": {"type": "string", "description": "For example (17.5 + 3) * 2 ^ 10 / 7. Numbers have a decimal point and no thousands separators."}
  },
  "required": ["expression"],
  "additionalProperties": false
}`, func(ctx context.Context, args *calculatorArgs) (string, error) {
		if strings.TrimSpace(args.Expression) == "" {
			return "", fmt.Errorf(`the argument "expression" is missing; give one such as "2 * (3 + 4)"`)
		}
		v, err := evaluate(ctx, args.Expression)
		if err != nil {
			return "", fmt.Errorf("cannot calculate %q: %w", clip(args.Expression, 200), err)
		}
		return v.String(), nil
	})
}

// Limits of a result's text.
const (
	maxDecimals = 100 // for a number with finitely many decimals
	approximate = 34  // significant digits of any other number, as in decimal128
	maxFraction = 40  // characters of a fraction that follows an approximation
)

// String returns a number in full if it is exact and has at most maxDecimals decimals. Otherwise
// it returns the number rounded, followed by the fraction if that is exact and short.
func (n number) String() string {
	if digits, ends := n.FloatPrec(); ends && digits <= maxDecimals && !n.rounded {
		return n.FloatString(digits)
	}
	text := "≈ " + significant(n.Rat)
	if fraction := n.RatString(); !n.rounded && len(fraction) <= maxFraction {
		text += fmt.Sprintf(" (exactly %s)", fraction)
	}
	return text
}

// significant formats r with approximate significant digits.
func significant(r *big.Rat) string {
	f := new(big.Float).SetPrec(256).SetRat(r)
	text := f.Text('g', approximate)
	if mantissa, exponent, ok := strings.Cut(text, "e"); ok {
		return strings.TrimSuffix(strings.TrimRight(mantissa, "0"), ".") + "e" + exponent
	}
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text
}
