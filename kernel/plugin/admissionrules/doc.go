// Package admissionrules says which requests an admission plugin is asked about:
// what its manifest asks for, what its guest describes and what an operator grants
// are rules of one form.
//
// How data passes through: a bundle's start compares the guest's rules with the
// manifest's (Beyond); a request is compared with both and with the operator's
// (Ask), before anything is encoded.
//
// Resources that give rights or are secrets are asked for by their name: * does
// not include them, in none of the three.
//
// It imports nothing of the kernel.
package admissionrules
