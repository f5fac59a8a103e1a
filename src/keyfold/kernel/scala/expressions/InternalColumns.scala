package org.apache.spark.sql.keyfold.expressions


/** Columns of keyfold's own that travel beside the user's. */
object InternalColumns {
  val Time = "_kf_time"; val Raw = "_kf_raw"; val Bad = "_kf_bad"; val Control = "_kf_control"; val Now = "_kf_now"
  val Replay = "_kf_replay"; val Given = "_kf_given"; val Pane = "_pane"; val Start = "_start"; val End = "_end"
  val Weight = "_kf_weight"; val Prev = "_kf_prev"; val Order = "_kf_order"; val Whole = "_kf_row"; val Op = "_op"; val Seen = "_seen"; val Left = "_left"; val Newest = "_newest"; val Rank = "rank"
  /** What a pipeline without a clock says when an expression reads it: it is then built again with one. */
  val NeedsClock = "KEYFOLD_NEEDS_CLOCK"
  val hidden: Set[String] = Set(Time, Raw, Bad, Control, Now, Replay, Given, Weight, Prev)
}
