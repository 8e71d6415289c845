/**
 * Returns one spelling for all literals of a number, so that 1e3 does not pass where 1000 would not. A number of more
 * than 64 digits, closer to 0 than 1e-10, or with an exponent above 64, below -64 or of more than seven characters is
 * returned unchanged.
 */
export function number(literal: string): string {
	let mantissa = literal, exponent: i64 = 0;
	const e = max(literal.indexOf("e"), literal.indexOf("E"));
	if (e >= 0) {
		mantissa = literal.substring(0, e);
		exponent = I64.parseInt(literal.substring(e + 1));
	}
	const negative = mantissa.startsWith("-");
	if (negative) mantissa = mantissa.substring(1);
	const dot = mantissa.indexOf(".");
	const whole = dot < 0 ? mantissa.length : dot;
	let digits = dot < 0 ? mantissa : mantissa.substring(0, dot) + mantissa.substring(dot + 1);
	let zeros = 0;
	while (zeros < digits.length && digits.charCodeAt(zeros) == 0x30) zeros++;
	let end = digits.length;
	while (end > zeros && digits.charCodeAt(end - 1) == 0x30) end--;
	digits = digits.substring(zeros, end);
	const n = digits.length;
	if (n == 0) return "0";
	if (literal.length - e > 8 && e >= 0) return literal;
	if (exponent > 64 || exponent < -64 || n > 64) return literal;
	const point = whole + <i32>exponent - zeros; // number of digits before the point
	if (point > 64 || point < -9) return literal;
	const sign = negative ? "-" : "";
	if (point <= 0) return sign + "0." + "0".repeat(-point) + digits;
	if (point >= n) return sign + digits + "0".repeat(point - n);
	return sign + digits.substring(0, point) + "." + digits.substring(point);
}
