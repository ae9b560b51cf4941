// Package description checks what a guest says of its plugins before anybody goes by
// it: a word that this kernel does not know would be taken for the default, and the
// plugin would decide by another rule than its author wrote.
//
// It owns which words a description may have, and since which contract. It imports
// the sdk and package readable. Descriptions pass through Check once a start of a guest.
package description
