# A test that fails may leave its connection in a transaction, in another database, or with replies
# that nobody has read, and the tests after it would fail for that reason: they get a new one.
rename test test_alone
proc test {args} {
    set failed $::num_failed
    uplevel 1 [linsert $args 0 test_alone]
    if {$::num_failed > $failed} {
        catch {reconnect}
    }
}
