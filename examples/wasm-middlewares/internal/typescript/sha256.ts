// HMAC-SHA-256 (RFC 2104, FIPS 180-4) of texts, as hexadecimal digits.

const primes = Array.from({ length: 312 }, (_, i) => i).filter((n) => n > 1 && ![2, 3, 5, 7, 11, 13, 17].some((d) => d < n && n % d === 0));
const fraction = (x: number) => ((x - Math.floor(x)) * 2 ** 32) | 0;
const rounds = primes.slice(0, 64).map((p) => fraction(Math.cbrt(p)));
const initial = primes.slice(0, 8).map((p) => fraction(Math.sqrt(p)));

const turn = (x: number, n: number) => (x >>> n) | (x << (32 - n));

function sha256(message: readonly number[]): number[] {
	const bits = message.length * 8;
	const padded = [...message, 0x80, ...Array<number>((119 - (message.length % 64)) % 64).fill(0), 0, 0, 0, 0, ...bytes(bits)];
	const h = [...initial];
	for (let block = 0; block < padded.length; block += 64) {
		const w: number[] = [];
		for (let i = 0; i < 64; i++) {
			if (i < 16) {
				w.push(padded.slice(block + i * 4, block + i * 4 + 4).reduce((n, b) => (n << 8) | b, 0));
				continue;
			}
			const [a, b] = [w[i - 15]!, w[i - 2]!];
			w.push((w[i - 16]! + (turn(a, 7) ^ turn(a, 18) ^ (a >>> 3)) + w[i - 7]! + (turn(b, 17) ^ turn(b, 19) ^ (b >>> 10))) | 0);
		}
		let [a, b, c, d, e, f, g, k] = h as [number, number, number, number, number, number, number, number];
		for (let i = 0; i < 64; i++) {
			const one = (k + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + rounds[i]! + w[i]!) | 0;
			const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
			[a, b, c, d, e, f, g, k] = [(one + two) | 0, a, b, c, (d + one) | 0, e, f, g];
		}
		[a, b, c, d, e, f, g, k].forEach((x, i) => (h[i] = (h[i]! + x) | 0));
	}
	return h.flatMap(bytes);
}

const bytes = (n: number) => [n >>> 24, (n >>> 16) & 0xff, (n >>> 8) & 0xff, n & 0xff];

const utf8 = (text: string) => [...unescape(encodeURIComponent(text))].map((c) => c.charCodeAt(0));

export function hmac(key: string, text: string): string {
	let k = utf8(key);
	if (k.length > 64) k = sha256(k);
	const pad = (x: number) => Array.from({ length: 64 }, (_, i) => (k[i] ?? 0) ^ x);
	return sha256([...pad(0x5c), ...sha256([...pad(0x36), ...utf8(text)])]).map((b) => b.toString(16).padStart(2, "0")).join("");
}
