// Package price reads price files, and computes the cost of a model's tokens.
//
// A price file is YAML with prices for a million tokens, or the JSON file with the prices of models that LiteLLM
// publishes. The operator may have the file from someone else: numbers that are negative, not finite or absurdly
// large are rejected.
package price

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/agent-runner/agent-runner/internal/gateway/usage"
)

// maxFile limits a price file, in bytes. LiteLLM's has about 1 MB.
const maxFile = 16 << 20

// maxPrice limits the price of a million tokens.
const maxPrice = 1e6

// Nano is the number of units of an [Amount] in one unit of the currency.
const Nano = 1e9

// An Amount is an amount of money in billionths of the currency's unit.
type Amount int64

// maxAmount is the largest result of [AmountOf], in billionths of the currency's unit. A sum of 1,024
// such amounts does not overflow.
const maxAmount = math.MaxInt64 / 1024

// AmountOf returns an amount of the currency's units, at least 0.
func AmountOf(units float64) Amount {
	return Amount(math.Round(min(max(units, 0)*Nano, maxAmount)))
}

// Units returns the amount in the currency's units.
func (a Amount) Units() float64 { return float64(a) / Nano }

// String returns the amount in the currency's units with four decimals.
func (a Amount) String() string { return strconv.FormatFloat(a.Units(), 'f', 4, 64) }

// A Price is the price of a million tokens, by their kind.
type Price struct {
	Input      float64
	CacheRead  float64
	CacheWrite float64
	Output     float64
}

// Of returns the cost of tokens.
func (p *Price) Of(t *usage.Tokens) Amount {
	return AmountOf((p.Input*float64(t.Input) + p.CacheRead*float64(t.CacheRead) +
		p.CacheWrite*float64(t.CacheWrite) + p.Output*float64(t.Output)) / 1e6)
}

// A Table has the prices of models. A nil table has none.
type Table struct {
	Currency string // such as USD
	rows     []row
	exact    map[string]*Price
}

type row struct {
	pattern string
	price   Price
}

// Find returns the price of a model, or nil if the table has none. The exact name takes precedence over patterns, and
// an earlier pattern over a later one.
func (t *Table) Find(model string) *Price {
	if t == nil {
		return nil
	}
	if p := t.exact[model]; p != nil {
		return p
	}
	plain := strings.NewReplacer("/", "\x00")
	for i := range t.rows {
		if ok, err := path.Match(plain.Replace(t.rows[i].pattern), plain.Replace(model)); ok && err == nil {
			return &t.rows[i].price
		}
	}
	return nil
}

// Load reads a price file. It returns an error if the file cannot be read, has more than 16 MiB, or is rejected by
// [Parse].
func Load(name string) (*Table, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxFile:
		return nil, fmt.Errorf("%s has more than %d bytes; it is no price file", name, maxFile)
	}
	t, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// Parse parses a price file. A JSON object without a member "prices" is LiteLLM's file. Parse returns an error if the
// file is malformed or has an invalid price.
func Parse(b []byte) (*Table, error) {
	models := map[string]json.RawMessage{}
	if bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) && json.Unmarshal(b, &models) == nil && models["prices"] == nil {
		return parseLiteLLM(models)
	}
	return parseYAML(b)
}

// A file is a price file in YAML.
type file struct {
	Currency string `yaml:"currency"`
	Prices   []struct {
		Model      string   `yaml:"model"`
		Input      *float64 `yaml:"input"`
		Output     *float64 `yaml:"output"`
		CacheRead  *float64 `yaml:"cached_input"`
		CacheWrite *float64 `yaml:"cache_write"`
	} `yaml:"prices"`
}

func parseYAML(b []byte) (*Table, error) {
	var f file
	if err := yaml.UnmarshalWithOptions(b, &f, yaml.Strict()); err != nil {
		return nil, errors.New(yaml.FormatError(err, false, false))
	}
	t := &Table{Currency: f.Currency}
	if t.Currency == "" {
		t.Currency = "USD"
	}
	if len(t.Currency) != 3 || strings.ToUpper(t.Currency) != t.Currency {
		return nil, fmt.Errorf("currency is %.20q; want a code of three letters, such as USD", t.Currency)
	}
	if len(f.Prices) == 0 {
		return nil, errors.New("no prices; want a list such as\nprices:\n  - {model: gpt-4o-mini, input: 0.15, output: 0.60}")
	}
	for i := range f.Prices {
		p := &f.Prices[i]
		if _, err := path.Match(p.Model, ""); err != nil || p.Model == "" {
			return nil, fmt.Errorf("prices[%d]: model is %.100q; want a name, or a pattern with * and ?", i, p.Model)
		}
		price, err := newPrice(p.Input, p.Output, p.CacheRead, p.CacheWrite, 1)
		if err != nil {
			return nil, fmt.Errorf("prices[%d], %.100q: %w", i, p.Model, err)
		}
		t.rows = append(t.rows, row{p.Model, *price})
	}
	return t, nil
}

// newPrice returns the price of a million tokens: the given prices times scale. Cached tokens cost as
// much as other input if read or write is nil.
func newPrice(input, output, read, write *float64, scale float64) (*Price, error) {
	if input == nil || output == nil {
		return nil, errors.New("want input and output, the prices of a million tokens")
	}
	p := &Price{Input: *input * scale, CacheRead: *input * scale, CacheWrite: *input * scale, Output: *output * scale}
	if read != nil {
		p.CacheRead = *read * scale
	}
	if write != nil {
		p.CacheWrite = *write * scale
	}
	for _, v := range []float64{p.Input, p.CacheRead, p.CacheWrite, p.Output} {
		if !(v >= 0 && v <= maxPrice) { // true for NaN, too
			return nil, fmt.Errorf("the price %v of a million tokens is not from 0 to %v", v, maxPrice)
		}
	}
	return p, nil
}

// parseLiteLLM reads the prices for one token of model_prices_and_context_window.json. It ignores models
// that are not priced by input and output tokens, such as those of images.
func parseLiteLLM(models map[string]json.RawMessage) (*Table, error) {
	t := &Table{Currency: "USD", exact: map[string]*Price{}}
	for name, text := range models {
		var m struct {
			Input      *float64 `json:"input_cost_per_token"`
			Output     *float64 `json:"output_cost_per_token"`
			CacheRead  *float64 `json:"cache_read_input_token_cost"`
			CacheWrite *float64 `json:"cache_creation_input_token_cost"`
		}
		if json.Unmarshal(text, &m) != nil || m.Input == nil || m.Output == nil || name == "sample_spec" {
			continue
		}
		price, err := newPrice(m.Input, m.Output, m.CacheRead, m.CacheWrite, 1e6)
		if err != nil {
			return nil, fmt.Errorf("%.100q: %w", name, err)
		}
		t.exact[name] = price
	}
	if len(t.exact) == 0 {
		return nil, errors.New("no prices; want YAML with a list prices, or LiteLLM's JSON file of models")
	}
	return t, nil
}
