// Package description checks a guest's description of its plugins before the host uses it.
// Without this check, the host would take an unknown word for the default. Then the plugin
// would decide by another rule than its author wrote.
//
// It owns the words that a description may have, and the contract version of each. It imports
// the sdk and package readable. Descriptions pass through Check once per start of a guest.
package description
