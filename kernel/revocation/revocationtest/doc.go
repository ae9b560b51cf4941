// Package revocationtest has authorities for tests of revoked certificates. Tests alone import it.
//
// It must not import kernel/revocation, whose tests use it.
package revocationtest
