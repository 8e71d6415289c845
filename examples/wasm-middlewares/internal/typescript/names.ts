/**
 * Reports whether name matches one of the patterns. In a pattern, * matches any sequence of characters, including
 * none.
 */
export function matchName(patterns: readonly string[], name: string): boolean {
	return patterns.some((pattern) => {
		const [head = "", ...parts] = pattern.split("*");
		const last = parts.pop();
		if (last === undefined) return name === pattern;
		if (!name.startsWith(head)) return false;
		let at = head.length;
		for (const part of parts) {
			const found = name.indexOf(part, at);
			if (found < 0) return false;
			at = found + part.length;
		}
		return name.length - at >= last.length && name.endsWith(last);
	});
}
