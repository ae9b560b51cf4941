// Package admissionrules defines which requests an admission plugin reviews. The rules of its
// manifest, of its guest and of an operator have one form.
//
// How data passes through: the start of a bundle compares the guest's rules with the
// manifest's (Beyond). Each request is compared with both and with the operator's (Ask),
// before anything is encoded.
//
// Resources that give rights or are secrets must be named explicitly: * does not include
// them in any of the three.
//
// It imports nothing of the kernel.
package admissionrules
