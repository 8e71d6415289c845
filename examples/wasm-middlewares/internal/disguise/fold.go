package disguise

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fold converts text to plain characters. Look-alikes from other scripts and accented, full-width,
// mathematical and circled letters become the Latin letters they resemble. All kinds of spaces
// become the ASCII space, and invisible characters are removed. Characters of the Unicode tag
// block, which are invisible but which models read, become their ASCII equivalents. ASCII text is
// unchanged.
func Fold(text string) string {
	i := strings.IndexFunc(text, func(c rune) bool { return c >= utf8.RuneSelf })
	if i < 0 {
		return text
	}
	var out strings.Builder
	out.Grow(len(text))
	out.WriteString(text[:i])
	for _, c := range text[i:] {
		if c < utf8.RuneSelf {
			out.WriteByte(byte(c))
		} else if c = fold(c); c >= 0 {
			out.WriteRune(c)
		}
	}
	return out.String()
}

// FoldRune returns the result of [Fold] for one character, or -1 if Fold removes it.
func FoldRune(c rune) rune {
	if c < utf8.RuneSelf {
		return c
	}
	return fold(c)
}

func fold(c rune) rune {
	if to, ok := lookalikes[c]; ok {
		return to
	}
	switch {
	case 0xE0020 <= c && c <= 0xE007E:
		return c - 0xE0000
	case invisible(c):
		return -1
	case unicode.Is(unicode.Zs, c):
		return ' '
	case unicode.Is(unicode.Mn, c):
		return -1
	}
	for _, b := range blocks {
		if b.from <= c && c <= b.to {
			return b.letter(c)
		}
	}
	return c
}

func invisible(c rune) bool {
	switch {
	case c == 0xAD,
		c == 0x34F,
		c == 0x61C,
		c == 0x115F,
		c == 0x1160,
		c == 0x17B4,
		c == 0x17B5,
		c == 0x180E,
		c == 0x3164,
		c == 0xFEFF,
		c == 0xFFA0,
		0x200B <= c &&
			c <= 0x200F,
		0x202A <= c && c <= 0x202E,
		0x2060 <= c && c <= 0x206F,
		0xFE00 <= c && c <= 0xFE0F,
		0xE0000 <= c && c <= 0xE01EF:
		return true
	default:
		return false
	}
}

// A block is a range of characters that map to a repeating sequence of plain ones.
type block struct {
	from, to rune
	stands   string // the plain characters, in order
}

func (b block) letter(c rune) rune { return rune(b.stands[int(c-b.from)%len(b.stands)]) }

const (
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
)

var blocks = []block{
	{0x2460, 0x2468, "123456789"},
	{0x249C, 0x24B5, lower},
	{0x24B6, 0x24CF, upper},
	{0x24D0, 0x24E9, lower},
	{0xFF01, 0xFF5E, `!"#$%&'()*+,-./` + digits + ":;<=>?@" + upper + "[\\]^_`" + lower + "{|}~"},
	{0x1D400, 0x1D6A3, upper + lower},
	{0x1D7CE, 0x1D7FF, digits},
	{0x1F130, 0x1F149, upper},
	{0x1F150, 0x1F169, upper},
	{0x1F170, 0x1F189, upper},
	{0x1F1E6, 0x1F1FF, upper},
}

// lookalikes maps characters to the Latin letters they resemble. Each line is a letter
// followed by its look-alikes, including accented forms.
var lookalikes = func() map[rune]rune {
	out := map[rune]rune{}
	for line := range strings.Lines(`aàáâãäåāăąǎаɑαᴀ
cçćĉċčсϲᴄ
dďđԁᴅ
eèéêëēĕėęěеєεᴇ℮
gĝğġģɡɢ
hĥħһʜ
iìíîïĩīĭįıіιɪⅰ
jĵјϳᴊ
kķκкᴋ
lĺļľŀłӏⅼʟ
mмⅿᴍ
nñńņňŉηпɴ
oòóôõöøōŏőоοσᴏ
pрρᴘ
qԛ
rŕŗřгʀ
sśŝşšѕꜱ
tţťŧтτᴛ
uùúûüũūŭůűųυᴜ
vνѵᴠⅴ
wŵԝωᴡ
xхχⅹ
yýÿŷуγʏ
zźżžᴢ
AÀÁÂÃÄÅĀĂĄАΑ
BВΒ
CÇĆĈĊČСϹⅭ
DĎĐⅮ
EÈÉÊËĒĔĖĘĚЕΕ
FϜ
GĜĞĠĢԌ
HĤĦНΗ
IÌÍÎÏĨĪĬĮİІΙⅠӀ
JĴЈ
KĶКΚK
LĹĻĽĿŁⅬ
MМΜⅯ
NÑŃŅŇΝ
OÒÓÔÕÖØŌŎŐОΟ
PРΡ
QԚ
RŔŖŘ
SŚŜŞŠЅ
TŢŤŦТΤ
UÙÚÛÜŨŪŬŮŰŲ
VѴⅤ
WŴԜ
XХΧⅩ
YÝŸŶУΥ
ZŹŻŽΖ
-‐‑‒–—―−
.․
/⁄∕
:ː∶
'‘’ʼ′
"“”″
@﹫
_‗﹎
`) {
		runes := []rune(strings.TrimSuffix(line, "\n"))
		for _, c := range runes[1:] {
			out[c] = runes[0]
		}
	}
	return out
}()
