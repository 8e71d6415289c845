package builtin

import (
	"errors"
	"fmt"
	"math/big"
)

// bounded returns n, or an error if its numerator or denominator has more than maxBits bits.
func bounded(n number) (number, error) {
	if n.Num().BitLen() > maxBits || n.Denom().BitLen() > maxBits {
		return number{}, fmt.Errorf("a number on the way has more than %d binary digits", maxBits)
	}
	return n, nil
}

var errZero = errors.New("division by zero")

func binary(op byte, a, b number) (number, error) {
	r := new(big.Rat)
	switch op {
	case '+':
		r.Add(a.Rat, b.Rat)
	case '-':
		r.Sub(a.Rat, b.Rat)
	case '*':
		r.Mul(a.Rat, b.Rat)
	case '/':
		if b.Sign() == 0 {
			return number{}, errZero
		}
		r.Quo(a.Rat, b.Rat)
	case '%':
		if b.Sign() == 0 {
			return number{}, errZero
		}
		q := r.Quo(a.Rat, b.Rat)
		whole := new(big.Int).Quo(q.Num(), q.Denom()) // truncated towards zero
		r = new(big.Rat).Mul(b.Rat, new(big.Rat).SetInt(whole))
		r.Sub(a.Rat, r)
	}
	return bounded(number{r, a.rounded || b.rounded})
}

func pow(base, exponent number) (number, error) {
	if !exponent.IsInt() {
		return number{}, errors.New("an exponent must be a whole number; there is sqrt for roots")
	}
	if e := exponent.Num(); !e.IsInt64() || e.Int64() > maxExponent || e.Int64() < -maxExponent {
		return number{}, fmt.Errorf("an exponent is beyond %d", maxExponent)
	}
	e := exponent.Num().Int64()
	if e < 0 {
		if base.Sign() == 0 {
			return number{}, errZero
		}
		base, e = number{new(big.Rat).Inv(base.Rat), base.rounded}, -e
	}
	// The operands determine the size of the result, so a result that is too large is rejected before
	// it is computed.
	if size := int64(max(base.Num().BitLen(), base.Denom().BitLen()) - 1); size*e > maxBits {
		return number{}, fmt.Errorf("a power on the way has more than %d binary digits", maxBits)
	}
	exp := big.NewInt(e)
	r := new(big.Rat).SetFrac(new(big.Int).Exp(base.Num(), exp, nil), new(big.Int).Exp(base.Denom(), exp, nil))
	return bounded(number{r, base.rounded || exponent.rounded})
}

// A function can be called in an expression.
type function struct {
	minArgs, maxArgs int    // number of arguments
	takes            string // the accepted arguments, in words
	call             func(args []number) (number, error)
}

const functionNames = "abs, sqrt, floor, ceil, round, min, max"

var functions = map[string]function{
	"abs": {1, 1, "one argument", func(a []number) (number, error) {
		return number{new(big.Rat).Abs(a[0].Rat), a[0].rounded}, nil
	}},
	"sqrt":  {1, 1, "one argument", func(a []number) (number, error) { return sqrt(a[0]) }},
	"floor": {1, 1, "one argument", func(a []number) (number, error) { return whole(a[0], floor), nil }},
	"ceil": {1, 1, "one argument", func(a []number) (number, error) {
		return whole(a[0], func(r *big.Rat) *big.Int {
			down := floor(new(big.Rat).Neg(r))
			return down.Neg(down)
		}), nil
	}},
	"round": {1, 2, "a number and perhaps how many decimals", round},
	"min":   {1, maxArguments, "numbers", func(a []number) (number, error) { return pick(a, -1), nil }},
	"max":   {1, maxArguments, "numbers", func(a []number) (number, error) { return pick(a, 1), nil }},
}

// pick returns the largest of args if sign is 1, and the smallest if sign is -1.
func pick(args []number, sign int) number {
	best := args[0]
	for _, a := range args[1:] {
		if a.Cmp(best.Rat) == sign {
			best = a
		}
	}
	return best
}

// whole returns n, rounded to a whole number by f.
func whole(n number, f func(*big.Rat) *big.Int) number {
	return settled(new(big.Rat).SetInt(f(n.Rat)), n)
}

// settled returns r, the explicitly rounded n, as a number. If n is an approximation, r counts as
// exact if its numerator has at most 128 bits, because n is precise to more bits than that.
func settled(r *big.Rat, n number) number {
	return number{r, n.rounded && r.Num().BitLen() > 128}
}

// floor rounds down. big.Int.Div rounds towards minus infinity if the divisor is positive, as
// denominators are.
func floor(r *big.Rat) *big.Int { return new(big.Int).Div(r.Num(), r.Denom()) }

// round rounds half away from zero, as in everyday arithmetic.
func round(args []number) (number, error) {
	digits := int64(0)
	if len(args) == 2 {
		if !args[1].IsInt() || !args[1].Num().IsInt64() {
			return number{}, errors.New("round takes a whole number of decimals")
		}
		digits = args[1].Num().Int64()
	}
	if digits > maxDigits || digits < -maxDigits {
		return number{}, fmt.Errorf("round takes at most %d decimals", maxDigits)
	}
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(max(digits, -digits)), nil))
	if digits < 0 {
		scale.Inv(scale)
	}
	r := new(big.Rat).Mul(new(big.Rat).Abs(args[0].Rat), scale)
	r.SetInt(floor(r.Add(r, big.NewRat(1, 2))))
	if r.Quo(r, scale); args[0].Sign() < 0 {
		r.Neg(r)
	}
	return bounded(settled(r, args[0]))
}

// sqrt returns the exact root if it is a fraction, and otherwise a rounded one with more correct
// digits than String shows.
func sqrt(n number) (number, error) {
	if n.Sign() < 0 {
		return number{}, errors.New("the square root of a negative number")
	}
	num, den := new(big.Int).Sqrt(n.Num()), new(big.Int).Sqrt(n.Denom())
	exact := new(big.Rat).SetFrac(num, den)
	if new(big.Rat).Mul(exact, exact).Cmp(n.Rat) == 0 {
		return number{exact, n.rounded}, nil
	}
	root, _ := new(big.Float).SetPrec(256).Sqrt(new(big.Float).SetPrec(256).SetRat(n.Rat)).Rat(nil)
	return bounded(number{root, true})
}

// pi returns pi to 60 decimals.
func pi() number {
	r, _ := new(big.Rat).SetString("3.141592653589793238462643383279502884197169399375105820974945")
	return number{r, true}
}
