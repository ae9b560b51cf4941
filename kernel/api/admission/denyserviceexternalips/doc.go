// Package denyserviceexternalips is the admission plugin DenyServiceExternalIPs:
// no service takes an external IP that it did not have before (CVE-2020-8554:
// whoever may write services could have the traffic of others to any address).
package denyserviceexternalips
