// Package console serves the web console: static files that call the API with the key of the
// signed-in user. The files contain no secrets and do not depend on the request.
//
// The page is at "/". It loads files from a path that contains the digest of all files. Browsers
// cache the files for a year, because changed files have another path. The Content-Security-Policy
// ([Policy]) allows only this server's files and API, no inline scripts, and no HTML from strings.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"html/template"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/agentfile"
)

//go:embed web
var embedded embed.FS

// Policy is the console's Content-Security-Policy. With trusted-types 'none', browsers reject HTML
// from strings.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

const (
	// Page is the pattern of the page. The other files have their own patterns.
	Page  = "GET /{$}"
	index = "index.html"
	// immutable is the Cache-Control of files whose path contains their digest.
	immutable = "public, max-age=31536000, immutable"
)

// kinds holds the media types of files by extension, independent of the machine's configuration.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".json": "application/schema+json",
}

// Mount registers the console's files. It registers no other path, so that the caller answers
// requests for missing files.
func Mount(handle func(pattern string, h http.Handler)) {
	for pattern, h := range handlers() {
		handle(pattern, h)
	}
}

// handlers returns the handlers of the embedded files by pattern. The files are compressed once in a
// process.
var handlers = sync.OnceValue(func() map[string]http.Handler {
	web, err := fs.Sub(embedded, "web")
	var more map[string][]byte
	if err == nil {
		more, err = formSchema()
	}
	var all map[string]http.Handler
	if err == nil {
		all, err = handlersOf(web, more)
	}
	if err != nil {
		panic("console: " + err.Error()) // the files are embedded in the program
	}
	return all
})

// formSchema returns the JSON Schema of agent.yaml, from which the console makes the form of its
// editor, as a file.
func formSchema() (map[string][]byte, error) {
	schema, err := agentfile.Schema()
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(schema)
	return map[string][]byte{"agent.schema.json": b}, err
}

// handlersOf returns the handlers of the files of web, and more, by pattern. It executes the page as a
// template, which receives the path of the other files and the names of the style sheets and scripts.
func handlersOf(web fs.FS, more map[string][]byte) (map[string]http.Handler, error) {
	files, base, err := read(web, more)
	if err != nil {
		return nil, err
	}
	page := struct {
		Base            string
		Styles, Modules []string
	}{Base: base}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch path.Ext(name) {
		case ".css":
			page.Styles = append(page.Styles, name)
		case ".js":
			page.Modules = append(page.Modules, name)
		}
	}
	t, err := template.New(index).Parse(string(files[index]))
	if err != nil {
		return nil, err
	}
	var html bytes.Buffer
	if err := t.Execute(&html, page); err != nil {
		return nil, err
	}
	all := map[string]http.Handler{Page: newFile(index, html.Bytes(), "no-cache")}
	for name, content := range files {
		if name != index {
			all["GET "+base+name] = newFile(name, content, immutable)
		}
	}
	return all, nil
}

// read returns the files of web, and more, by name, and the path with their digest.
func read(web fs.FS, more map[string][]byte) (files map[string][]byte, base string, err error) {
	files = maps.Clone(more)
	if files == nil {
		files = map[string][]byte{}
	}
	err = fs.WalkDir(web, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[name], err = fs.ReadFile(web, name)
		return err
	})
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_, _ = sum.Write([]byte(name + "\x00" + strconv.Itoa(len(files[name])) + "\x00"))
		_, _ = sum.Write(files[name])
	}
	return files, "/console/" + hex.EncodeToString(sum.Sum(nil))[:16] + "/", err
}

// A file is one file of the console: its plain content and, if that is smaller, its content
// compressed with gzip.
type file struct {
	name, kind, tag, cache string
	plain, packed          []byte
}

func newFile(name string, content []byte, cache string) *file {
	sum := sha256.Sum256(content)
	f := &file{name: name, kind: kinds[path.Ext(name)], tag: hex.EncodeToString(sum[:])[:16], cache: cache, plain: content}
	if f.kind == "" {
		f.kind = mime.TypeByExtension(path.Ext(name))
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(content)
	}
	if err == nil && z.Close() == nil && b.Len() < len(content) {
		f.packed = b.Bytes()
	}
	return f
}

// ServeHTTP implements [http.Handler].
func (f *file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", f.cache)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	content, tag := f.plain, f.tag
	if f.packed != nil && accepts(r, "gzip") {
		h.Set("Content-Encoding", "gzip")
		content, tag = f.packed, f.tag+"-gzip"
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, f.name, time.Time{}, bytes.NewReader(content))
}

// accepts reports whether a request accepts a content encoding.
func accepts(r *http.Request, coding string) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), coding) {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(quality), "q="), 64)
			return err != nil || q > 0
		}
	}
	return false
}
