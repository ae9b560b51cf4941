// Package tokenkeys keeps the keys of service-account tokens as files of a
// directory: the one that signs (sa.key), the one that is to sign next
// (sa-next.key), former ones that verify (sa.pub) and those that verify no more
// (sa-revoked.pub).
//
// Promises: a rotation that is cut off leaves keys by which every token that was
// good verifies. What is damaged is an error, and never means fewer revoked keys.
// Merge brings the sets of several kernels to one, in any order.
//
// Data passes through as: files → Set → the keys in force (token.Keys). It must not
// import the API server.
package tokenkeys
