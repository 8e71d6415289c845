//go:build wasip1

// Command goguest is the guest of TestGoGuest. It does typical work of a Go program on a host that
// has no files and never waits.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

//go:wasmimport test_v1 call
func call(n uint32) uint32

//go:wasmexport hook
func hook(n uint32) uint32 {
	report := map[string]any{
		"args": len(os.Args), "environ": len(os.Environ()),
		"call": call(n), "sum": sum(int(n)),
	}
	_, err := os.ReadFile("/etc/passwd")
	report["file"] = err.Error()
	begin := time.Now()
	time.Sleep(time.Hour)
	report["slept"] = time.Since(begin).Round(time.Hour).String()
	report["now"] = begin.UTC().Format(time.RFC3339)
	random := make([]byte, 8)
	_, _ = rand.Read(random)
	report["random"] = hex.EncodeToString(random)
	runtime.GC()
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return 1
	}
	fmt.Fprintln(os.Stderr, "done")
	return 0
}

// sum returns the sum of the numbers below n. It adds them in goroutines.
func sum(n int) int {
	var wg sync.WaitGroup
	results := make(chan int)
	for i := range n {
		wg.Go(func() { results <- i })
	}
	go func() { wg.Wait(); close(results) }()
	total := 0
	for r := range results {
		total += r
	}
	return total
}

// work decodes and encodes about this many kilobytes of JSON. It returns 0 if it succeeds.
//
//go:wasmexport work
func work(kilobytes uint32) uint32 {
	doc := document(int(kilobytes))
	var value any
	if err := json.Unmarshal(doc, &value); err != nil {
		return 1
	}
	out, err := json.Marshal(value)
	if err != nil || len(out) < len(doc)/2 {
		return 2
	}
	return 0
}

// document returns about this many kilobytes of JSON like a conversation's.
func document(kilobytes int) []byte {
	var b bytes.Buffer
	b.WriteByte('[')
	for i := 0; b.Len() < kilobytes<<10; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"role":"user","content":"message %d: what is the weather like in the place where I live?","id":%d,"extra":{"a":[1,2.5,null,true]}}`, i, i)
	}
	b.WriteByte(']')
	return b.Bytes()
}

//go:wasmexport fail
func fail() { panic("the guest gave up") }

//go:wasmexport eat
func eat() {
	var kept [][]byte
	for {
		kept = append(kept, make([]byte, 1<<20))
		runtime.KeepAlive(kept)
	}
}

//go:wasmexport spin
func spin() {
	for {
	}
}

func main() {}
