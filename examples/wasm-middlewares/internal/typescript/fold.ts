// Converts a text to plain characters.

/**
 * Look-alikes of other scripts and accented, full-width, mathematical and circled letters become the Latin letters
 * they resemble. All spaces become one kind, and invisible characters are removed. Characters of the Unicode tag
 * block, which are invisible but which models read, become their ASCII equivalents. ASCII text is unchanged.
 */
export function fold(text: string): string {
	if (/^[\0-\x7f]*$/.test(text)) return text;
	let out = "";
	for (const c of text) out += c < "\x80" ? c : plain(c);
	return out;
}

/** Matches one invisible character. */
export const invisible =
	/^[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u3164\ufeff\uffa0\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\u{e0000}-\u{e01ef}]$/u;

function plain(c: string): string {
	const letter = lookalikes.get(c);
	if (letter !== undefined) return letter;
	const n = c.codePointAt(0)!;
	if (0xe0020 <= n && n <= 0xe007e) return String.fromCharCode(n - 0xe0000);
	if (invisible.test(c)) return "";
	if (/^\p{Zs}$/u.test(c)) return " ";
	if (/^\p{Mn}$/u.test(c)) return "";
	const block = blocks.find(([from, to]) => from <= n && n <= to);
	return block === undefined ? c : block[2][(n - block[0]) % block[2].length]!;
}

const upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const lower = "abcdefghijklmnopqrstuvwxyz";
const digits = "0123456789";

// Ranges of characters that map to a repeating sequence of plain ones.
const blocks: [from: number, to: number, stands: string][] = [
	[0x2460, 0x2468, "123456789"],
	[0x249c, 0x24b5, lower],
	[0x24b6, 0x24cf, upper],
	[0x24d0, 0x24e9, lower],
	[0xff01, 0xff5e, `!"#$%&'()*+,-./${digits}:;<=>?@${upper}[\\]^_\`${lower}{|}~`],
	[0x1d400, 0x1d6a3, upper + lower],
	[0x1d7ce, 0x1d7ff, digits],
	[0x1f130, 0x1f149, upper],
	[0x1f150, 0x1f169, upper],
	[0x1f170, 0x1f189, upper],
	[0x1f1e6, 0x1f1ff, upper],
];

// Maps characters to the Latin letters they resemble. Each line is a letter followed by its
// look-alikes, including accented forms.
const lookalikes = new Map<string, string>();
for (const line of `aàáâãäåāăąǎаɑαᴀ
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
`.trim().split("\n")) {
	const [letter, ...others] = line;
	for (const c of others) lookalikes.set(c, letter!);
}
