package console

import (
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// served returns the console's handler and patterns.
func served(t *testing.T) (h http.Handler, patterns []string) {
	t.Helper()
	mux := http.NewServeMux()
	Mount(func(pattern string, h http.Handler) {
		patterns = append(patterns, pattern)
		mux.Handle(pattern, h)
	})
	return mux, patterns
}

// TestQuotasAreShown checks that the console's operator page lists all quotas of a tenant.
func TestQuotasAreShown(t *testing.T) {
	t.Parallel()
	page, err := embedded.ReadFile("web/pages/tenants.js")
	require.NoError(t, err)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[store.TenantQuota]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		require.Contains(t, string(page), `["`+name+`", "`, "internal/server/console/web/pages/tenants.js")
	}
}

func ask(h http.Handler, path string, header ...string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(b)
}

func TestFiles(t *testing.T) {
	t.Parallel()
	h, patterns := served(t)
	require.Contains(t, patterns, Page)
	for _, pattern := range patterns {
		at := strings.TrimSuffix(strings.TrimPrefix(pattern, "GET "), "{$}")
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			plain := ask(h, at)
			require.Equal(t, 200, plain.StatusCode)
			content := text(t, plain.Body)
			for name, want := range map[string]string{
				"Content-Security-Policy":      Policy,
				"X-Content-Type-Options":       "nosniff",
				"X-Frame-Options":              "DENY",
				"Referrer-Policy":              "no-referrer",
				"Cross-Origin-Opener-Policy":   "same-origin",
				"Cross-Origin-Resource-Policy": "same-origin",
				"Vary":                         "Accept-Encoding",
			} {
				require.Equal(t, want, plain.Header.Get(name), name)
			}
			kind := kinds[path.Ext(at)]
			if at == "/" {
				kind = kinds[".html"]
				require.Equal(t, "no-cache", plain.Header.Get("Cache-Control"), "another build is seen at once")
			} else {
				require.Equal(t, immutable, plain.Header.Get("Cache-Control"))
			}
			require.Equal(t, kind, plain.Header.Get("Content-Type"))
			require.NotEmpty(t, kind)

			require.Equal(t, http.StatusNotModified, ask(h, at, "If-None-Match", plain.Header.Get("ETag")).StatusCode)
			packed := ask(h, at, "Accept-Encoding", "br, gzip;q=0.5")
			if packed.Header.Get("Content-Encoding") == "gzip" {
				require.NotEqual(t, plain.Header.Get("ETag"), packed.Header.Get("ETag"))
				z, err := gzip.NewReader(packed.Body)
				require.NoError(t, err)
				require.Equal(t, content, text(t, z))
			}
			require.Empty(t, ask(h, at, "Accept-Encoding", "gzip;q=0, br").Header.Get("Content-Encoding"))
		})
	}
	require.Equal(t, 404, ask(h, "/console/").StatusCode)
	require.Equal(t, 404, ask(h, "/main.js").StatusCode)
}

// TestPolicy checks that the policy allows the console's own files, but no HTML or scripts from
// strings.
func TestPolicy(t *testing.T) {
	t.Parallel()
	require.NotContains(t, Policy, "unsafe")
	require.NotContains(t, Policy, "*")
	for _, want := range []string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "base-uri 'none'",
		"form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
	} {
		require.Contains(t, strings.Split(Policy, "; "), want)
	}
}

// TestPathHasDigest checks that the path of the files changes with their content.
func TestPathHasDigest(t *testing.T) {
	t.Parallel()
	bases := map[string]bool{}
	for _, web := range []fstest.MapFS{
		{"index.html": {Data: []byte("a")}, "main.js": {Data: []byte("b")}},
		{"index.html": {Data: []byte("a")}, "main.js": {Data: []byte("c")}},
		{"index.html": {Data: []byte("a")}, "main.css": {Data: []byte("b")}},
		{"index.html": {Data: []byte("a")}, "main.js": {}, "b": {}},
	} {
		_, base, err := read(web, nil)
		require.NoError(t, err)
		require.Regexp(t, `^/console/[0-9a-f]{16}/$`, base)
		bases[base] = true
	}
	require.Len(t, bases, 4)
	_, err := handlersOf(fstest.MapFS{"index.html": {Data: []byte("{{")}}, nil)
	require.Error(t, err)
}

// forbidden matches code that creates HTML, scripts or requests from strings. Browsers with trusted
// types reject most of it, too.
var forbidden = regexp.MustCompile(
	`innerHTML|outerHTML|insertAdjacentHTML|setHTML|DOMParser|createContextualFragment|document\.write|srcdoc|` +
		`\beval\(|new Function|Function\(|setTimeout\(["'` + "`" + `]|javascript:|\bstyle=|\son[a-z]+=|setAttribute\("(?:on|style|src)|https?://|localStorage|document\.cookie|import\(`,
)

// TestNothingMakesHTML checks that the console's files contain no code that forbidden matches, so
// that data from modules, models and tenants is shown as text, never as HTML.
func TestNothingMakesHTML(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"e.innerHTML = x", `<p style="x">`, `<p onclick="x">`, "eval(x)", `src="https://example.com"`,
	} {
		require.Regexp(t, forbidden, bad)
	}
	seen := 0
	require.NoError(t, fs.WalkDir(embedded, "web", func(name string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if d.IsDir() {
			return nil
		}
		b, err := fs.ReadFile(embedded, name)
		require.NoError(t, err)
		source := strings.ReplaceAll(string(b), `"http://www.w3.org/2000/svg"`, "") // a name, not an address
		require.Empty(t, forbidden.FindAllString(source, -1), name)
		if path.Ext(name) == ".html" {
			require.NotRegexp(t, `(?s)<script[^>]*>[^<]`, source, "no inline scripts")
			require.NotContains(t, source, "<style")
		}
		seen++
		return nil
	}))
	require.Greater(t, seen, 10)
}

// TestElementsAreMadeInOnePlace checks that only dom.js, which determines the allowed attributes,
// creates elements and sets attributes. It also checks that the scripts import files that exist.
func TestElementsAreMadeInOnePlace(t *testing.T) {
	t.Parallel()
	require.NoError(t, fs.WalkDir(embedded, "web", func(name string, _ fs.DirEntry, err error) error {
		require.NoError(t, err)
		if path.Ext(name) != ".js" {
			return nil
		}
		b, err := fs.ReadFile(embedded, name)
		require.NoError(t, err)
		if name != "web/dom.js" {
			require.NotRegexp(t, `createElement|setAttribute|createTextNode`, string(b), name)
		}
		for _, m := range regexp.MustCompile(`from "([^"]+)"`).FindAllStringSubmatch(string(b), -1) {
			_, err := fs.Stat(embedded, path.Join(path.Dir(name), m[1]))
			require.NoError(t, err, "%s imports %s", name, m[1])
		}
		return nil
	}))
}

// TestSmall checks that the page and its files have less than 128 KiB in all when compressed: 0.3 s at 4 Mbit/s.
func TestSmall(t *testing.T) {
	t.Parallel()
	h, patterns := served(t)
	size := 0
	for _, pattern := range patterns {
		at := strings.TrimSuffix(strings.TrimPrefix(pattern, "GET "), "{$}")
		size += len(text(t, ask(h, at, "Accept-Encoding", "gzip").Body))
	}
	require.Less(t, size, 128<<10)
}

// TestScripts checks that the scripts that need no page pass their tests in Node.js.
func TestScripts(t *testing.T) {
	t.Parallel()
	npmtest.Folder(t) // skips the test if Node.js is missing
	out, err := exec.CommandContext(t.Context(), "node", filepath.Join("testdata", "test.mjs")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "ok: 5 files")
}
