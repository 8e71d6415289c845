/**
 * Returns one spelling for all literals of a number, so that 1e3 does not pass where 1000 would not. A number of more
 * than 64 digits, of 1e64 or more, or closer to 0 than 1e-10 is returned unchanged.
 */
export function number(literal: string): string {
	let mantissa = literal, exponent: i32 = 0;
	const e = max(literal.indexOf("e"), literal.indexOf("E"));
	if (e >= 0) {
		mantissa = literal.substring(0, e);
		exponent = whole(literal.substring(e + 1));
	}
	const negative = mantissa.startsWith("-");
	if (negative) mantissa = mantissa.substring(1);
	const dot = mantissa.indexOf(".");
	const before = dot < 0 ? mantissa.length : dot; // number of digits before the dot
	let digits = dot < 0 ? mantissa : mantissa.substring(0, dot) + mantissa.substring(dot + 1);
	let zeros = 0;
	while (zeros < digits.length && digits.charCodeAt(zeros) == 0x30) zeros++;
	let end = digits.length;
	while (end > zeros && digits.charCodeAt(end - 1) == 0x30) end--;
	digits = digits.substring(zeros, end);
	const n = digits.length;
	if (n == 0) return "0";
	const point = before + exponent - zeros; // number of the digits before the point, as the number is written out
	if (n > 64 || point > 64 || point < -9) return literal;
	const sign = negative ? "-" : "";
	if (point <= 0) return sign + "0." + "0".repeat(-point) + digits;
	if (point >= n) return sign + digits + "0".repeat(point - n);
	return sign + digits.substring(0, point) + "." + digits.substring(point);
}

/** Returns the value of the digits of an exponent, but at most 1e9 and at least -1e9. */
function whole(text: string): i32 {
	const negative = text.startsWith("-");
	let value: i64 = 0;
	for (let i = negative || text.startsWith("+") ? 1 : 0; i < text.length; i++) {
		value = min(value * 10 + text.charCodeAt(i) - 0x30, 1000000000);
	}
	return <i32>(negative ? -value : value);
}
