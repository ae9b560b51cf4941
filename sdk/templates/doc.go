// Package templates holds what a new plugin starts from: a folder of files for
// each language and kind, which come out formatted, with a manifest, tests and
// cases, and which build as they are.
//
// Render fills a template in and returns the files; it writes none. Languages
// says what there is. The files lie under files/, by language and kind; cases
// are shared by all languages, so that each is held to the same answers.
//
// It imports nothing but the standard library.
package templates
