package builtin

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"
)

// Limits of a calculation. Numbers are exact and would otherwise grow without bound. Within the
// limits no expression takes much more than a second.
const (
	maxExpression = 4096  // bytes
	maxNesting    = 64    // levels of parentheses, signs and powers
	maxBits       = 32768 // bits of a numerator or denominator: about 9,860 digits
	maxExponent   = 10000 // absolute value of a literal's decimal exponent and of the exponent of ^
	maxArguments  = 64    // per function
	maxDigits     = 1000  // absolute value of the second argument of round
)

// A number is a fraction. rounded is set if it is only an approximation of the result, as for
// sqrt(2).
type number struct {
	*big.Rat
	rounded bool
}

// evaluate computes an expression. The precedence is, from high to low: ^, which is
// right-associative; signs; * / %; + -. So -2^2 is -4.
func evaluate(ctx context.Context, expression string) (number, error) {
	if len(expression) > maxExpression {
		return number{}, fmt.Errorf("it has %d bytes; at most %d are allowed", len(expression), maxExpression)
	}
	if !utf8.ValidString(expression) {
		return number{}, errors.New("it is not valid UTF-8")
	}
	p := &parser{ctx: ctx, in: typed.Replace(expression)}
	v, err := p.sum()
	if err == nil {
		err = p.end()
	}
	return v, err
}

// typed maps typographic operators to ASCII.
var typed = strings.NewReplacer("×", "*", "·", "*", "÷", "/", "−", "-", "–", "-", "**", "^", "π", "pi")

// A parser parses and computes in one pass, from left to right.
type parser struct {
	ctx   context.Context
	in    string
	at    int
	depth int
}

// peek skips white space and returns the next byte, or 0 at the end.
func (p *parser) peek() byte {
	for p.at < len(p.in) {
		switch c := p.in[p.at]; c {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return c
		}
	}
	return 0
}

// take skips white space and the byte c, and reports whether c was next.
func (p *parser) take(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.at++
	return true
}

// end returns an error that describes the next text, or nil at the end of the expression.
func (p *parser) end() error {
	switch c := p.peek(); {
	case c == 0 && p.at == len(p.in):
		return nil
	case c == ')':
		return errors.New("there is a ) without its (")
	case c == ',':
		return errors.New(
			"there is a comma outside of a function; numbers are written without thousands separators, with a decimal point",
		)
	case c == '(' || isLetter(c) || isDigit(c):
		return fmt.Errorf("an operator is missing before %q", clip(p.in[p.at:], 20))
	default:
		return fmt.Errorf("%q was not expected; there are + - * / %% ^ ( )", firstRune(p.in[p.at:]))
	}
}

func firstRune(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return s[:n]
}

// nested calls f. It fails if calls of nested are more than maxNesting levels deep, or if the
// context is done.
func (p *parser) nested(f func() (number, error)) (number, error) {
	if p.depth == maxNesting {
		return number{}, fmt.Errorf("it is nested deeper than %d levels", maxNesting)
	}
	if err := p.ctx.Err(); err != nil {
		return number{}, err
	}
	p.depth++
	defer func() { p.depth-- }()
	return f()
}

func (p *parser) sum() (number, error) {
	return p.leftToRight(p.product, "+-")
}

func (p *parser) product() (number, error) {
	return p.leftToRight(p.signed, "*/%")
}

func (p *parser) leftToRight(operand func() (number, error), operators string) (number, error) {
	left, err := operand()
	for err == nil {
		if err := p.ctx.Err(); err != nil {
			return number{}, err
		}
		op := p.peek()
		if op == 0 || strings.IndexByte(operators, op) < 0 {
			break
		}
		p.at++
		var right number
		if right, err = operand(); err == nil {
			left, err = binary(op, left, right)
		}
	}
	return left, err
}

func (p *parser) signed() (number, error) {
	switch {
	case p.take('-'):
		v, err := p.nested(p.signed)
		if err == nil {
			v.Rat = new(big.Rat).Neg(v.Rat)
		}
		return v, err
	case p.take('+'):
		return p.nested(p.signed)
	default:
		return p.power()
	}
}

func (p *parser) power() (number, error) {
	base, err := p.operand()
	if err != nil || !p.take('^') {
		return base, err
	}
	exponent, err := p.nested(p.signed)
	if err != nil {
		return number{}, err
	}
	return pow(base, exponent)
}

func (p *parser) operand() (number, error) {
	switch c := p.peek(); {
	case p.take('('):
		v, err := p.nested(p.sum)
		if err == nil && !p.take(')') {
			err = p.missing()
		}
		return v, err
	case isDigit(c) || c == '.':
		return p.literal()
	case isLetter(c):
		return p.name()
	case c == 0 && p.at == len(p.in):
		return number{}, errors.New("it ends where a number was expected")
	case strings.IndexByte("+-*/%^),", c) >= 0:
		return number{}, fmt.Errorf("a number is missing before %q", string(c))
	default:
		return number{}, p.end()
	}
}

// missing returns the error for a missing closing parenthesis.
func (p *parser) missing() error {
	if c := p.peek(); c == 0 && p.at == len(p.in) || c == ',' {
		return errors.New("a ) is missing")
	}
	return p.end()
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }

// literal parses a decimal number: digits, a point, and an exponent.
func (p *parser) literal() (number, error) {
	start := p.at
	p.digits()
	if p.at < len(p.in) && p.in[p.at] == '.' {
		p.at++
		p.digits()
	}
	mantissa := p.in[start:p.at]
	exponent := 0
	if end := p.at; end < len(p.in) && (p.in[end] == 'e' || p.in[end] == 'E') {
		var ok bool
		if exponent, ok = p.exponent(); !ok {
			p.at = end // a name follows without an operator; the caller reports it
		}
	}
	if mantissa == "." || strings.HasPrefix(p.in[p.at:], ".") {
		return number{}, fmt.Errorf("%q is not a number", clip(p.in[start:], 20))
	}
	if exponent > maxExponent || exponent < -maxExponent {
		return number{}, fmt.Errorf("the exponent of %q is beyond %d", clip(p.in[start:p.at], 40), maxExponent)
	}
	r, ok := new(big.Rat).SetString(fmt.Sprintf("%se%d", mantissa, exponent))
	if !ok {
		return number{}, fmt.Errorf("%q is not a number", clip(p.in[start:p.at], 40))
	}
	return bounded(number{Rat: r})
}

func (p *parser) digits() {
	for p.at < len(p.in) && isDigit(p.in[p.at]) {
		p.at++
	}
}

// exponent parses e, an optional sign and digits. It clamps the absolute value to maxExponent+1, and
// returns false if there are no digits.
func (p *parser) exponent() (int, bool) {
	p.at++
	sign := 1
	if p.at < len(p.in) && (p.in[p.at] == '+' || p.in[p.at] == '-') {
		if p.in[p.at] == '-' {
			sign = -1
		}
		p.at++
	}
	start, n := p.at, 0
	for p.digits(); start < p.at; start++ {
		n = min(10*n+int(p.in[start]-'0'), maxExponent+1)
	}
	return sign * n, isDigit(p.in[p.at-1])
}

func (p *parser) name() (number, error) {
	start := p.at
	for p.at < len(p.in) && (isLetter(p.in[p.at]) || isDigit(p.in[p.at])) {
		p.at++
	}
	name := strings.ToLower(p.in[start:p.at])
	if name == "pi" {
		return pi(), nil
	}
	f, ok := functions[name]
	if !ok {
		return number{}, fmt.Errorf("%q is not known; there are pi, %s", clip(name, 40), functionNames)
	}
	if !p.take('(') {
		return number{}, fmt.Errorf("a ( is missing after %s", name)
	}
	var args []number
	for {
		arg, err := p.nested(p.sum)
		if err != nil {
			return number{}, err
		}
		if args = append(args, arg); len(args) > maxArguments {
			return number{}, fmt.Errorf("%s takes at most %d arguments", name, maxArguments)
		}
		if p.take(')') {
			break
		}
		if !p.take(',') {
			return number{}, p.missing()
		}
	}
	if len(args) < f.minArgs || len(args) > f.maxArgs {
		return number{}, fmt.Errorf("%s takes %s, not %d", name, f.takes, len(args))
	}
	return f.call(args)
}
