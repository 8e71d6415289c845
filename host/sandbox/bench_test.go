package sandbox

import (
	"testing"
)

// What a clean instance of a 2.6 MB Go guest costs.
func BenchmarkInstantiate(b *testing.B) {
	wasm, err := goGuest()
	if err != nil {
		b.Fatal(err)
	}
	im := load(b, newSandbox(b, Options{}), wasm, Limits{})
	b.ReportAllocs()
	for b.Loop() {
		in, err := im.Instantiate(b.Context(), InstanceConfig{})
		if err != nil {
			b.Fatal(err)
		}
		in.Close()
	}
}

// What a call of a small export costs.
func BenchmarkCall(b *testing.B) {
	in := guest(b, InstanceConfig{}, Limits{})
	b.ReportAllocs()
	for b.Loop() {
		call(b, in, "count")
	}
}
