// Package envfile reads variables from files that containers write for others
// of their pod (env valueFrom fileKeyRef): VARIABLE='value', one after the other.
//
// It parses bytes and opens nothing; what is in them is anybody's. It imports
// nothing of the kernel.
package envfile
