// Package suite pins Gateway API's conformance suite, and is built into a program that tests a
// cluster. It owns nothing else. It must not be imported.
package suite
