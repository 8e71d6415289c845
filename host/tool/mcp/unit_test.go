package mcp

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/abijson"
)

func TestReadLine(t *testing.T) {
	t.Parallel()
	for _, size := range []int{16, 64, 4096} { // sizes of the reader's buffer
		in := "short\n" + strings.Repeat("a", 1000) + "z\n" + strings.Repeat("b", 99) + "\nend"
		r := bufio.NewReaderSize(strings.NewReader(in), size)
		line, long, err := readLine(r, 100)
		require.NoError(t, err)
		require.Nil(t, long)
		require.Equal(t, "short\n", string(line))

		line, long, err = readLine(r, 100)
		require.NoError(t, err)
		require.Nil(t, line)
		require.Equal(t, 1002, long.size)
		require.Equal(t, strings.Repeat("a", endBytes), string(long.head))
		require.Equal(t, strings.Repeat("a", endBytes-2)+"z\n", string(long.tail))

		line, long, err = readLine(r, 100)
		require.NoError(t, err)
		require.Nil(t, long)
		require.Len(t, line, 100)

		line, long, err = readLine(r, 100)
		require.ErrorIs(t, err, io.EOF)
		require.Nil(t, long)
		require.Equal(t, "end", string(line))
	}
}

func TestLongLineID(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	for in, want := range map[string]int64{
		`{"jsonrpc":"2.0","id":5,"result":"` + long + `"}`:            5,
		`{"id": 5, "jsonrpc":"2.0","result":"` + long + `"}`:          5,
		`{"result":"` + long + `","jsonrpc":"2.0","id":12}` + "\n":    12,
		`{"result":"` + long + `" , "id" : 12 , "jsonrpc" : "2.0" } `: 12,
		`{"result":{"x":"` + long + `","id":7}}`:                      -1,
		`{"result":[{"x":"` + long + `"},{"id":7}]}`:                  -1,
		`{"result":"` + long + `,\"id\":7}"}`:                         -1,
		`{"method":"notifications/message","params":"` + long + `"}`:  -1,
		`{"result":"` + long + `","id":"7"}`:                          -1,
		`{"result":"` + long + `","id":99999999999999999999}`:         -1,
		long: -1,
	} {
		_, l, _ := readLine(bufio.NewReader(strings.NewReader(in)), 100)
		id, ok := l.id()
		if !ok {
			id = -1
		}
		require.Equal(t, want, id, in[:20]+in[len(in)-20:])
	}
}

func TestExact(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"id":1,"result":{"x":1}}`:                                                                 `{"id":1,"result":{"x":1}}`,
		`{"id":1,"result":{"structuredContent":{"b":1.50,"a":"<"}}}`:                                `{"id":1,"result":{"content":[{"text":"{\"b\":1.50,\"a\":\"<\"}","type":"text"}]}}`,
		`{"id":1,"result":{"structuredContent":1,"content":[{"type":"text","text":"x"}]}}`:          `{"id":1,"result":{"structuredContent":1,"content":[{"type":"text","text":"x"}]}}`,
		`{"id":1,"result":{"structuredContent":1,"content":7}}`:                                     `{"id":1,"result":{"structuredContent":1,"content":7}}`,
		`{"id":1,"result":{"tools":[{"inputSchema":{"b":1.50}}, 7, {"x":"inputSchema"}]}}`:          `{"id":1,"result":{"tools":[{"_meta":{"agent-runner/inputSchema":"{\"b\":1.50}"},"inputSchema":{"b":1.50}},7,{"x":"inputSchema"}]}}`,
		`{"id":1,"result":{"tools":[{"_meta":{"agent-runner/inputSchema":"{}"},"inputSchema":1}]}}`: `{"id":1,"result":{"tools":[{"_meta":{"agent-runner/inputSchema":"1"},"inputSchema":1}]}}`,
		`{"id":1,"result":"inputSchema"}`:                                                           `{"id":1,"result":"inputSchema"}`,
		`not JSON "structuredContent"`:                                                              `not JSON "structuredContent"`,
		`{"result":{"tools":"inputSchema"`:                                                          `{"result":{"tools":"inputSchema"`,
		`{"method":"x","structuredContent"}`:                                                        `{"method":"x","structuredContent"}`,
	} {
		require.Equal(t, want, string(exact([]byte(in))), in)
	}
}

func TestLastLines(t *testing.T) {
	t.Parallel()
	var l lastLines
	require.Empty(t, l.String())
	l.add([]byte("  \n"))
	require.Empty(t, l.String())
	for i := range maxTailLines + 5 {
		l.add(fmt.Appendf(nil, "line %d\r\n", i))
	}
	require.True(t, strings.HasPrefix(l.String(), "; it printed last:\n  line 5\n"), l.String())
	require.True(t, strings.HasSuffix(l.String(), "\n  line 14"), l.String())
	l.add([]byte("\xff" + strings.Repeat("ä", 1000)))
	require.Less(t, len(l.String()), 700)
	require.True(t, strings.HasSuffix(l.String(), "…"))
}

func TestResult(t *testing.T) {
	t.Parallel()
	size := int64(12)
	for name, tc := range map[string]struct {
		in   []sdk.Content
		want string // the content as JSON
	}{
		"nothing":    {nil, `""`},
		"a text":     {[]sdk.Content{&sdk.TextContent{Text: "a"}}, `"a"`},
		"texts":      {[]sdk.Content{&sdk.TextContent{Text: "a"}, &sdk.TextContent{Text: ""}, &sdk.TextContent{Text: "b"}}, `"a\n\nb"`},
		"image":      {[]sdk.Content{&sdk.TextContent{Text: "a"}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte("PNG")}}, `[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,UE5H"}}]`},
		"mp3":        {[]sdk.Content{&sdk.AudioContent{MIMEType: "audio/mpeg", Data: []byte("mp3")}}, `[{"type":"input_audio","input_audio":{"data":"bXAz","format":"mp3"}}]`},
		"wav":        {[]sdk.Content{&sdk.AudioContent{MIMEType: "audio/x-wav; rate=8000", Data: []byte("wav")}}, `[{"type":"input_audio","input_audio":{"data":"d2F2","format":"wav"}}]`},
		"odd image":  {[]sdk.Content{&sdk.ImageContent{MIMEType: `";alert(1)`, Data: []byte("x")}}, `[{"type":"file","file":{"file_data":"data:application/octet-stream;base64,eA==","filename":"file"}}]`},
		"text file":  {[]sdk.Content{&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///a/b.txt", Text: "hi"}}}, `"Resource file:///a/b.txt:\nhi"`},
		"binary":     {[]sdk.Content{&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///a/b.pdf", MIMEType: "application/pdf", Blob: []byte("PDF")}}}, `[{"type":"file","file":{"file_data":"data:application/pdf;base64,UERG","filename":"b.pdf"}}]`},
		"image file": {[]sdk.Content{&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "x:", MIMEType: "image/gif", Blob: []byte("GIF")}}}, `[{"type":"image_url","image_url":{"url":"data:image/gif;base64,R0lG"}}]`},
		"no file":    {[]sdk.Content{&sdk.EmbeddedResource{}}, `"[left out: an empty resource]"`},
		"link":       {[]sdk.Content{&sdk.ResourceLink{URI: "file:///a", Name: "a", Description: "An a", MIMEType: "text/plain", Size: &size}}, `"Resource file:///a; a; An a; text/plain; 12 bytes"`},
		"unknown":    {[]sdk.Content{struct{ sdk.Content }{}}, `"[left out: content of an unknown kind, struct { mcp.Content }]"`},
		"not UTF-8":  {[]sdk.Content{&sdk.TextContent{Text: "a\xff"}}, `"a` + "\ufffd" + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := result(&sdk.CallToolResult{Content: tc.in, IsError: true})
			require.True(t, res.IsError)
			b, err := abijson.Marshal(res.Content)
			require.NoError(t, err)
			require.Equal(t, tc.want, string(b))
		})
	}
}

func TestStructuredResult(t *testing.T) {
	t.Parallel()
	structured := map[string]any{"degrees": 21}
	res := result(&sdk.CallToolResult{StructuredContent: structured})
	require.Equal(t, `{"degrees":21}`, res.Content.String())
	res = result(
		&sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "21 degrees"}}, StructuredContent: structured},
	)
	require.Equal(t, "21 degrees", res.Content.String(), "the server's text for models has precedence")
}

func TestFileName(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"file:///a/b.txt": "b.txt",
		"http://h/a/?q=1": "a",
		"http://h/":       "",
		"http://h":        "",
		"urn:x:y":         "urn:x:y"[4:],
		"%zz":             "",
		"a/../..":         "",
	} {
		require.Equal(t, want, fileName(uri), uri)
	}
}

// FuzzLongLine checks that readLine returns at most limit bytes of a line, or at most endBytes of
// each end of a longer one, and that the sizes add up to the input. Neither id nor exact may
// panic.
func FuzzLongLine(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":5,"result":""}`), 10)
	f.Add([]byte(`{"id":5,"result":{"tools":[{"inputSchema":{}}]}}`), 100)
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		if limit < 0 {
			return
		}
		r := bufio.NewReaderSize(strings.NewReader(string(in)), 16)
		total := 0
		for {
			line, long, err := readLine(r, limit)
			total += len(line)
			if long != nil {
				total += long.size
				long.id()
				require.LessOrEqual(t, len(long.head)+len(long.tail), 2*endBytes)
			}
			require.LessOrEqual(t, len(line), limit)
			exact(line)
			if err != nil {
				break
			}
		}
		require.Equal(t, len(in), total)
	})
}
