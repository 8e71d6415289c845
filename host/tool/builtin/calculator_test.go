package builtin

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/abijson"
)

// TestCalculator checks the results of valid expressions.
func TestCalculator(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"1 + 2 * 3":                   "7",
		"(1 + 2) * 3":                 "9",
		"0.1 + 0.2":                   "0.3",
		"1.10 - 1":                    "0.1",
		"10 / 4":                      "2.5",
		"1 / 3":                       "≈ 0.3333333333333333333333333333333333 (exactly 1/3)",
		"2 / 3 * 3":                   "2",
		"-7 % 3":                      "-1",
		"7 % -3":                      "1",
		"5.5 % 2":                     "1.5",
		"2 ^ 10":                      "1024",
		"2 ** 10":                     "1024",
		"2 ^ 3 ^ 2":                   "512",
		"-2 ^ 2":                      "-4",
		"(-2) ^ 2":                    "4",
		"2 ^ -2":                      "0.25",
		"0 ^ 0":                       "1",
		"2 ^ 200":                     "1606938044258990275541962092341162602522202993782792835301376",
		"1e3 + 1.5E-3":                "1000.0015",
		".5 + 1.":                     "1.5",
		"--3":                         "3",
		"2 * -3":                      "-6",
		"10 - 4 - 3":                  "3",
		"100 / 10 / 2":                "5",
		"3 × 4 ÷ 2 − 1":               "5",
		"sqrt(16)":                    "4",
		"sqrt(2.25)":                  "1.5",
		"sqrt(2)":                     "≈ 1.414213562373095048801688724209698",
		"sqrt(2) ^ 2":                 "≈ 2",
		"round(sqrt(2), 3)":           "1.414",
		"π":                           "≈ 3.141592653589793238462643383279503",
		"round(pi * 10 ^ 2, -1)":      "310",
		"round(2.5)":                  "3",
		"round(-2.5)":                 "-3",
		"round(1.005, 2)":             "1.01",
		"floor(-1.5)":                 "-2",
		"ceil(-1.5)":                  "-1",
		"CEIL(1.1)":                   "2",
		"abs(-3.25)":                  "3.25",
		"min(3, 1, 2) + max(1, 5, 2)": "6",
		"1/7e40":                      "≈ 1.428571428571428571428571428571429e-41",
		"17.99 * 3 * 1.19":            "64.2243",
		"99999999999999999999 + 1":    "100000000000000000000",
		"1e-100":                      "0." + strings.Repeat("0", 99) + "1",
		"1e-101":                      "≈ 1e-101",
		"\t1\n+\r1 ":                  "2",
	} {
		require.Equal(t, want, ask(t, newCalculator(), args(`{"expression":%s}`, strconv.Quote(expression))), expression)
	}
}

// TestCalculatorRefuses checks the errors for invalid expressions and for those that exceed a
// limit.
func TestCalculatorRefuses(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		" ":                       `the argument "expression" is missing`,
		"1 / 0":                   "division by zero",
		"1 % (2 - 2)":             "division by zero",
		"0 ^ -1":                  "division by zero",
		"1 +":                     "it ends where a number was expected",
		"(1":                      "a ) is missing",
		"(1, 2)":                  "a ) is missing",
		"1)":                      "there is a ) without its (",
		"()":                      `a number is missing before ")"`,
		"* 2":                     `a number is missing before "*"`,
		"2 3":                     `an operator is missing before "3"`,
		"2(3)":                    `an operator is missing before "(3)"`,
		"2x":                      `an operator is missing before "x"`,
		"1e":                      `an operator is missing before "e"`,
		"1,000 * 2":               "without thousands separators",
		"1.2.3":                   `"1.2.3" is not a number`,
		".":                       `"." is not a number`,
		"2 $ 3":                   `"$" was not expected`,
		"€5":                      `"€" was not expected`,
		"1 = 1":                   `"=" was not expected`,
		"5!":                      `"!" was not expected`,
		"1\x00":                   `was not expected`,
		"sin(1)":                  `"sin" is not known; there are pi, abs, sqrt`,
		"abs":                     "a ( is missing after abs",
		"abs()":                   `a number is missing before ")"`,
		"abs(1, 2)":               "abs takes one argument, not 2",
		"abs(1 2)":                `an operator is missing before "2)"`,
		"min(1":                   "a ) is missing",
		"round(1, 2, 3)":          "round takes a number and perhaps how many decimals, not 3",
		"round(1, 0.5)":           "whole number of decimals",
		"round(1, 1001)":          "at most 1000 decimals",
		"sqrt(-1)":                "square root of a negative number",
		"2 ^ 0.5":                 "there is sqrt for roots",
		"2 ^ 10001":               "an exponent is beyond 10000",
		"9 ^ 9 ^ 9":               "an exponent is beyond 10000",
		"999 ^ 9999":              "more than 32768 binary digits",
		"1e99999":                 "is beyond 10000",
		"1e-99999999999999999999": "is beyond 10000",
		"1e9999 * 1":              "more than 32768 binary digits",
		"9^9999 * 9^9999":         "more than 32768 binary digits",
		strings.Repeat("(", 65) + "1" + strings.Repeat(")", 65): "nested deeper than 64 levels",
		strings.Repeat("-", 100) + "1":                          "nested deeper than 64 levels",
		strings.Repeat("2^", 100) + "1":                         "nested deeper than 64 levels",
		strings.Repeat("1+", 2500):                              "it has 5000 bytes; at most 4096 are allowed",
		"max(" + strings.Repeat("1,", 64) + "1)":                "max takes at most 64 arguments",
	} {
		b, err := abijson.Marshal(map[string]string{"expression": expression})
		require.NoError(t, err)
		got := ask(t, newCalculator(), string(b))
		require.True(t, strings.HasPrefix(got, "ERROR "), "%s: %s", expression, got)
		require.Contains(t, got, want, expression)
	}
}

// TestCalculatorAgainstBig checks that evaluate and math/big agree on random expressions.
func TestCalculatorAgainstBig(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		text, want := randomExpression(rnd, 5)
		got, err := evaluate(t.Context(), text)
		if want == nil {
			require.ErrorIs(t, err, errZero, text)
			continue
		}
		require.NoError(t, err, text)
		require.Zero(t, want.Cmp(got.Rat), "%s = %s, want %s", text, got, want)
	}
}

// randomExpression returns a fully parenthesized expression and its value, which is nil if the
// expression divides by zero.
func randomExpression(rnd *rand.Rand, depth int) (string, *big.Rat) {
	if depth == 0 || rnd.IntN(4) == 0 {
		n := rnd.IntN(2000)
		return strconv.Itoa(n/100) + "." + strconv.Itoa(100 + n%100)[1:], big.NewRat(int64(n/100*100+n%100), 100)
	}
	a, x := randomExpression(rnd, depth-1)
	b, y := randomExpression(rnd, depth-1)
	op := "+-*/"[rnd.IntN(4)]
	text := "(" + a + " " + string(op) + " " + b + ")"
	if x == nil || y == nil || op == '/' && y.Sign() == 0 {
		return text, nil
	}
	r := new(big.Rat)
	switch op {
	case '+':
		r.Add(x, y)
	case '-':
		r.Sub(x, y)
	case '*':
		r.Mul(x, y)
	case '/':
		r.Quo(x, y)
	}
	return text, r
}

func FuzzEvaluate(f *testing.F) {
	for _, s := range []string{
		"1+2*3", "round(pi, 2)", "-2^-3^2 % 7", "min(1,2)/max(3e2,.5)", "((1)", "1/0", "9^9^9", "sqrt(1e-300)",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		v, err := evaluate(context.Background(), expression)
		if err != nil {
			return
		}
		if v.Num().BitLen() > maxBits || v.Denom().BitLen() > maxBits {
			t.Fatalf("%q is too large", expression)
		}
		text := v.String()
		shown := strings.TrimPrefix(text, "≈ ")
		shown, _, _ = strings.Cut(shown, " ")
		back, ok := new(big.Rat).SetString(shown)
		if !ok {
			t.Fatalf("%q gives %q, which is not a number", expression, text)
		}
		if !strings.HasPrefix(text, "≈") && back.Cmp(v.Rat) != 0 {
			t.Fatalf("%q gives %q, which is not exactly %s", expression, text, v.RatString())
		}
		want, _ := v.Float64()
		got, _ := back.Float64()
		if diff := math.Abs(got - want); diff > 1e-12*math.Abs(want) && !math.IsInf(want, 0) {
			t.Fatalf("%q gives %q, want about %g", expression, text, want)
		}
	})
}

// BenchmarkEvaluate evaluates the most expensive expressions within the limits.
func BenchmarkEvaluate(b *testing.B) {
	for name, expression := range map[string]string{
		"large fractions": "1/7^5000" + strings.Repeat("+1/3^9999", 450),
		"large roots":     strings.Repeat("sqrt(7^9999)*0+", 270) + "1",
		"large remainder": "1" + strings.Repeat("+7^9999%3^9999", 280),
		"many numbers":    "1" + strings.Repeat("+1", 2000),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, _ = evaluate(b.Context(), expression)
			}
		})
	}
}
