// Package pkicmd is the command pintle pki with all below it: it parses arguments, calls
// kernel/api/auth/pki and kernel/api/auth/credentials, and prints what they say.
package pkicmd
