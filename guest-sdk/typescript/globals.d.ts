// Globals of scripts in addition to the standard built-in objects, and the types of imported text files. They merge with
// the declarations of the library dom and of @types/node, so that a project may have these too.
interface Console {
	debug(...values: unknown[]): void;
	log(...values: unknown[]): void;
	info(...values: unknown[]): void;
	warn(...values: unknown[]): void;
	error(...values: unknown[]): void;
	trace(...values: unknown[]): void;
}

declare var console: Console;

declare module "*.txt" {
	const text: string;
	export default text;
}

declare module "*.md" {
	const text: string;
	export default text;
}
